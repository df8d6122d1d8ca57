// What a pool thinks of one peer: it is ejected when it failed, and an ejection ends with the first
// good work that it does, or with its time.
//
// A peer's client counts its good work (a target's good verdicts, a draft's answers). Here is what
// the pool has seen of that count: it looks from time to time, so nobody has to call the pool for
// each verdict.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "orchestrator/peers/ejection.h"

namespace tandem::orchestrator {

// Not thread-safe: its pool's lock. Times are of one steady clock.
class PeerHealth {
 public:
  explicit PeerHealth(Ejection ejection) : ejection_(ejection) {}

  // `good_work`: all that the peer has done so far. More than at the last look: an ejection is
  // over, and the next one is short again. Returns whether it was more.
  bool Look(uint64_t good_work) {
    if (good_work == seen_) return false;
    seen_ = good_work;
    ejection_.Worked();
    return true;
  }
  // A look that ends nothing: what the peer did so far proves nothing.
  void Discount(uint64_t good_work) { seen_ = good_work; }

  // False: it is ejected already, and this failure counts for nothing.
  bool Eject(concurrency::Instant now) {
    if (ejection_.Ejected(now)) return false;
    ejection_.Failed(now);
    return true;
  }

  // By what was seen, and by a count that was not looked at yet.
  bool Ejected(concurrency::Instant now) const { return ejection_.Ejected(now); }
  bool Ejected(concurrency::Instant now, uint64_t good_work) const {
    return Ejected(now) && good_work == seen_;
  }
  concurrency::Instant until() const { return ejection_.until(); }  // while it is ejected
  uint64_t ejections() const { return ejection_.count(); }          // how often it was, ever

 private:
  Ejection ejection_;
  uint64_t seen_ = 0;
};

}  // namespace tandem::orchestrator
