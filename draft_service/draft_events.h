// What sessions tell the drafting thread. Plain values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "common/messages/refusal.h"
#include "common/telemetry/span_context.h"
#include "common/transport/stream.h"
#include "draft_service/request_check.h"
#include "tandem/v1/draft.pb.h"

namespace tandem::draft_service {

using StreamId = uint64_t;  // of this process; 0 is none
using BlockSink = transport::Sink<v1::DraftReply>;

struct StreamBegins {
  StreamId stream = 0;
  std::shared_ptr<BlockSink> sink;
  std::string client_id;  // streams of one client share its part of the device
};
struct OpenArrives {
  StreamId stream = 0;
  uint64_t sequence = 0;
  std::variant<CheckedOpen, messages::Refusal> open;
};
struct AdvanceArrives {
  StreamId stream = 0;
  uint64_t sequence = 0;
  uint64_t round = 0;
  std::variant<CheckedAdvance, messages::Refusal> advance;
  concurrency::Instant arrived;
  std::optional<telemetry::SpanContext> trace;  // sampled; absent: it is not
};
struct CloseArrives {
  StreamId stream = 0;
  uint64_t sequence = 0;
};
// The client sends nothing more: answer what waits, free all, then close with OK.
struct StreamFinishes {
  StreamId stream = 0;
};
// The stream is gone: drop what waits, free all.
struct StreamEnds {
  StreamId stream = 0;
};
// The service drains: wakes the thread, which ends streams as their blocks go out.
struct DrainBegins {};
// The service has ended: all that is left is dropped.
struct AllEnd {};
using DraftEvent = std::variant<StreamBegins, OpenArrives, AdvanceArrives, CloseArrives,
                                StreamFinishes, StreamEnds, DrainBegins, AllEnd>;

}  // namespace tandem::draft_service
