// Measures where the time of a round's verification went: waiting for a target, on the network, in
// the target's queue, on its device.
#pragma once

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "orchestrator/request/request.h"
#include "orchestrator/request/verdict.h"

namespace tandem::orchestrator {

// Not thread-safe. All times are of one steady clock.
class StageClock {
 public:
  void Begin(concurrency::Instant now) {
    spent_ = {};
    counted_until_ = now;
  }
  // A Step goes out. The time from now on is a wait for it.
  void Sent(concurrency::Instant now) { counted_until_ = now; }
  // The wait until now was for a target, or for a Step that came to nothing.
  void Vain(concurrency::Instant now) { spent_.slot += now - std::exchange(counted_until_, now); }
  // The durations that the target reports count up to the time of the wait. Two clocks are never
  // compared.
  void Answered(concurrency::Instant now, const VerifyReply& reply) {
    const absl::Duration waited = now - std::exchange(counted_until_, now);
    const absl::Duration device = std::clamp(reply.computed, absl::ZeroDuration(), waited);
    const absl::Duration queue = std::clamp(reply.queued, absl::ZeroDuration(), waited - device);
    spent_.device += device;
    spent_.queue += queue;
    spent_.network += waited - device - queue;
  }

  // Slot, network, queue and device since Begin or since the last call.
  RoundStages Take() { return std::exchange(spent_, {}); }

 private:
  RoundStages spent_;  // up to counted_until_
  concurrency::Instant counted_until_;
};

}  // namespace tandem::orchestrator
