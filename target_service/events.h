// What sessions tell the device's thread, beside the life of streams (stream_events.h).
#pragma once

#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/concurrency/instant.h"
#include "common/serving/stream_events.h"
#include "common/transport/stream.h"
#include "tandem/internal/v1/target.pb.h"
#include "target_service/sequences/step_check.h"

namespace tandem::target_service {

using base::SequenceId;
using serving::StreamId;
using VerdictSink = transport::Sink<internal::v1::TargetReply>;

// Steps first, then closings: a Step that is closed by its own Batch is answered CLOSED.
struct BatchArrives {
  StreamId stream{};
  std::vector<std::variant<CheckedStep, RefusedStep>> steps;
  std::vector<SequenceId> close;
  concurrency::Instant arrived;
};

}  // namespace tandem::target_service
