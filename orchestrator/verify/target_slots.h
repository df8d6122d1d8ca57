// Whether one target takes another sequence, as far as is known: by its last report, less what was
// placed there since; unknown before the first report. After NO_SLOT it has none, until a report
// says otherwise, a sequence of ours ends there, or the time is over that it asked for; then one
// session tries.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/concurrency/instant.h"

namespace tandem::orchestrator {

// Not thread-safe: its pool's lock. Times are of one steady clock. All that it knows is of one
// stream.
class TargetSlots {
 public:
  base::Incarnation incarnation() const {
    return incarnation_;
  }  // of that stream; 0: there was none yet
  // Begins anew when this is another stream; returns whether it is.
  bool Follow(base::Incarnation incarnation) {
    if (incarnation == incarnation_) return false;
    incarnation_ = incarnation;
    draining_ = false;
    free_.reset();
    return true;
  }

  void Reported(uint32_t free, concurrency::Instant full_until) {
    free_ = free;
    full_until_ = full_until;
  }
  // NO_SLOT, though it may have said otherwise.
  void Full(concurrency::Instant until) {
    free_ = 0;
    full_until_ = until;
  }
  // Where there is none, and its time is over: one may try, and the next one at `next`.
  void LetOneTry(concurrency::Instant now, concurrency::Instant next) {
    if (free_ != 0u || now < full_until_) return;
    free_ = 1;
    full_until_ = next;
  }
  // It said DRAINING: it takes no new sequences for as long as its stream lives.
  void Drains() { draining_ = true; }

  void Took() {
    if (free_.has_value()) --*free_;
  }
  void Freed() {
    if (free_.has_value()) ++*free_;
  }

  bool may_take() const { return free_ != 0u; }
  bool surely_has() const { return free_.value_or(0) > 0; }
  bool draining() const { return draining_; }

 private:
  base::Incarnation incarnation_{};
  bool draining_ = false;
  std::optional<uint32_t> free_;     // empty: unknown
  concurrency::Instant full_until_;  // when there is none: one may try then
};

}  // namespace tandem::orchestrator
