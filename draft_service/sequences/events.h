// What sessions tell the drafting thread, beside the life of streams (stream_events.h). Plain
// values.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/concurrency/instant.h"
#include "common/messages/refusal.h"
#include "common/serving/stream_events.h"
#include "common/telemetry/span_context.h"
#include "draft_service/sequences/request_check.h"
#include "tandem/internal/v1/draft.pb.h"

namespace tandem::draft_service {

using base::SequenceId;
using serving::StreamId;

struct OpenArrives {
  StreamId stream{};
  SequenceId sequence{};
  std::variant<CheckedOpen, messages::Refusal> open;
};
struct AdvanceArrives {
  StreamId stream{};
  SequenceId sequence{};
  uint64_t round = 0;
  std::variant<CheckedAdvance, messages::Refusal> advance;
  concurrency::Instant arrived;
  std::optional<telemetry::SpanContext> trace;  // sampled; absent: it is not
};
// No Advance: it gets no answer.
struct SubmittedArrives {
  StreamId stream{};
  SequenceId sequence{};
  base::BlockId block_id{};
  uint32_t nodes = 0;
};
struct CloseArrives {
  StreamId stream{};
  SequenceId sequence{};
};
using Arrival = std::variant<OpenArrives, AdvanceArrives, SubmittedArrives, CloseArrives>;

}  // namespace tandem::draft_service
