// Where the time of a round's verification went: waiting for a target, on the network, in the
// target's queue, on its device.
#pragma once

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "orchestrator/request/request.h"
#include "orchestrator/request/verdict.h"

namespace tandem::orchestrator {

// Not thread-safe. Times are of one steady clock.
class StageClock {
 public:
  void Begin(concurrency::Instant now) {
    spent_ = {};
    counted_until_ = now;
  }
  // A Step goes out: what follows is waiting for it.
  void Sent(concurrency::Instant now) { counted_until_ = now; }
  // What was waited for until now came to nothing, or was a target.
  void Vain(concurrency::Instant now) { spent_.slot += now - std::exchange(counted_until_, now); }
  // What the target says of itself counts up to what was waited for it; two clocks are never
  // compared.
  void Answered(concurrency::Instant now, const VerifyReply& reply) {
    const absl::Duration waited = now - std::exchange(counted_until_, now);
    const absl::Duration device = std::clamp(reply.computed, absl::ZeroDuration(), waited);
    const absl::Duration queue = std::clamp(reply.queued, absl::ZeroDuration(), waited - device);
    spent_.device += device;
    spent_.queue += queue;
    spent_.network += waited - device - queue;
  }

  // Slot, network, queue and device since Begin, or the last call.
  RoundStages Take() { return std::exchange(spent_, {}); }

 private:
  RoundStages spent_;  // up to counted_until_
  concurrency::Instant counted_until_;
};

}  // namespace tandem::orchestrator
