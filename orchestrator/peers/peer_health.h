// A pool's record of one peer's health. The peer is ejected when it fails. The ejection ends with
// the peer's first good work, or with its time.
//
// A peer's client counts good work: a target's good verdicts, a draft's answers. The pool looks at
// that count from time to time, so nobody has to call the pool for each verdict. This class holds
// what the pool has seen of it.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "orchestrator/peers/ejection.h"

namespace tandem::orchestrator {

// Not thread-safe: guarded by the pool's lock. All times are of one steady clock.
class PeerHealth {
 public:
  explicit PeerHealth(Ejection ejection) : ejection_(ejection) {}

  // `good_work` is the number of good works so far. If it is higher than at the last look, an
  // ejection is over and the next one is short again. Returns whether it was higher.
  bool Look(uint64_t good_work) {
    if (good_work == seen_) return false;
    seen_ = good_work;
    ejection_.Worked();
    return true;
  }
  // A look that ends no ejection, because the work that was done so far proves nothing.
  void Discount(uint64_t good_work) { seen_ = good_work; }

  // Returns false if the peer is ejected already; then this failure does not count.
  bool Eject(concurrency::Instant now) {
    if (ejection_.Ejected(now)) return false;
    ejection_.Failed(now);
    return true;
  }

  // Takes into account what was seen, and a count that was not looked at yet.
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
