// From the streams to the device: what gRPC's threads hand to the device's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/concurrency/bounded_queue.h"
#include "common/concurrency/instant.h"
#include "common/messages/refusal.h"
#include "common/telemetry/span_context.h"
#include "common/transport/stream.h"
#include "tandem/v1/target.pb.h"
#include "target_service/sequence_table.h"
#include "target_service/step_check.h"

namespace tandem::target_service {

using VerdictSink = transport::Sink<v1::TargetReply>;

// A Step that was refused before it came to the device; its verdict goes out with the others.
struct RefusedStep {
  uint64_t sequence = 0;
  uint64_t round = 0;
  messages::Refusal refusal;
  std::optional<telemetry::SpanContext> trace;  // as CheckedStep's
};

// What its client's older streams left behind is its own now.
struct StreamBegins {
  StreamId stream = 0;
  std::string client_id;
  uint64_t incarnation = 0;
  std::shared_ptr<VerdictSink> sink;
};
// Steps first, then closings: a Step that is closed by its own Batch is answered CLOSED.
struct BatchArrives {
  StreamId stream = 0;
  std::vector<std::variant<CheckedStep, RefusedStep>> steps;
  std::vector<uint64_t> close;
  concurrency::Instant arrived;
};
// The client sends nothing more: answer what waits, free all, then close with OK.
struct StreamFinishes {
  StreamId stream = 0;
};
// The stream is gone, or is to go with `status`: drop what waits; free all, or let it linger.
struct StreamEnds {
  StreamId stream = 0;
  bool lingers = false;
  absl::Status status;  // not OK: the sink is closed with it
};

// The service has ended: all streams go with UNAVAILABLE, and what waits is dropped.
struct AllEnd {};

using StepEvent = std::variant<StreamBegins, BatchArrives, StreamFinishes, StreamEnds, AllEnd>;

// Thread-safe. First in, first out.
class StepQueue {
 public:
  static constexpr size_t kMaxBatches = 4096;

  // For Batches: RESOURCE_EXHAUSTED when too many wait (its client sends without waiting for verdicts).
  absl::Status PushBatch(BatchArrives batch) {
    if (queue_.size() >= kMaxBatches) {
      return absl::ResourceExhaustedError(
          "too many Batches wait for the device: wait for verdicts before sending more");
    }
    return queue_.TryPush(std::move(batch));
  }
  // For all else; never refused while open.
  void Push(StepEvent event) { queue_.TryPush(std::move(event)).IgnoreError(); }

  std::optional<StepEvent> TryPop() { return queue_.TryPop(); }
  // Waits. CANCELLED once closed and empty; nothing when `timeout` (may be infinite) has passed.
  absl::StatusOr<std::optional<StepEvent>> PopFor(absl::Duration timeout) {
    return queue_.PopFor(timeout);
  }

  void Close() { queue_.Close(absl::CancelledError("the device's thread ends")); }

 private:
  // Room for the closings of far more streams than Batches may wait.
  concurrency::BoundedQueue<StepEvent> queue_{size_t{1} << 20};
};

}  // namespace tandem::target_service
