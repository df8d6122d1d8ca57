// Leaves a peer that failed alone for a while: longer each time, until it works again. A peer can
// be reachable and broken all the same: its device hangs, or it answers every request with a fault.
// Without ejection one request after the other would find that out.
//
// When all peers are ejected, the one whose time ends first is taken, because a bad peer is better
// than none.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "orchestrator/peers/retry_delay.h"

namespace tandem::orchestrator {

// Not thread-safe. All times are of one steady clock.
class Ejection {
 public:
  // The peer is left alone for `min` after the first failure, and for up to `max` after many in a
  // row, both with jitter. `seed` is for the jitter.
  Ejection(absl::Duration min, absl::Duration max, uint64_t seed) : delay_(min, max, seed) {}

  // `at_least` is how long the peer asks to be left alone. A failure while it is ejected belongs to
  // work that was under way, and does not count.
  void Failed(concurrency::Instant now, absl::Duration at_least = absl::ZeroDuration()) {
    if (Ejected(now)) return;
    failed_ = true;
    ++count_;
    until_ = now + std::max(delay_.Next(), at_least);
  }
  // The peer did its work. The next failure counts as the first again.
  void Worked() {
    failed_ = false;
    delay_.Reset();
  }

  bool Ejected(concurrency::Instant now) const { return failed_ && now < until_; }
  concurrency::Instant until() const { return until_; }  // while it is ejected
  uint64_t count() const { return count_; }              // how often it was, ever

 private:
  RetryDelay delay_;
  bool failed_ = false;
  uint64_t count_ = 0;
  concurrency::Instant until_;
};

}  // namespace tandem::orchestrator
