// Whether a peer that failed is left alone for a while: longer each time, until it works again. A peer
// that can be reached may be broken all the same (its device hangs, it answers every request with a fault
// of its own), and would be found so by one request after the other.
//
// When all peers are ejected the one whose time is over first is taken: a bad peer is better than none.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "orchestrator/peers/retry_delay.h"

namespace tandem::orchestrator {

// Not thread-safe. Times are of one steady clock.
class Ejection {
 public:
  // Left alone for `least` after the first failure, up to `most` after many in a row, both with jitter.
  // `seed`: of the jitter.
  Ejection(absl::Duration min, absl::Duration max, uint64_t seed) : delay_(min, max, seed) {}

  // `at_least`: how long the peer itself wants to be left alone. Failures while it is ejected are of what
  // was under way there already, and count for nothing.
  void Failed(concurrency::Instant now, absl::Duration at_least = absl::ZeroDuration()) {
    if (Ejected(now)) return;
    failed_ = true;
    ++count_;
    until_ = now + std::max(delay_.Next(), at_least);
  }
  // It did what it is for; the next failure is the first again.
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
