// Whether one target takes another sequence, as far as is known. The number of free slots is that
// of its last report, less the sequences that were sent there since; it is unknown before the first
// report. After NO_SLOT there is no free slot until a report says otherwise, one of our sequences
// ends there, or the time is over that the target asked for. Then one session may try.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/concurrency/instant.h"

namespace tandem::orchestrator {

// Not thread-safe: guarded by the pool's lock. All times are of one steady clock. All that it knows
// belongs to one stream.
class TargetSlots {
 public:
  base::Incarnation incarnation() const { return incarnation_; }  // the stream's; 0: none yet
  // Begins anew if this is another stream. Returns whether it is.
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
  // The target answered NO_SLOT, whatever it reported before.
  void Full(concurrency::Instant until) {
    free_ = 0;
    full_until_ = until;
  }
  // If there is no slot and the target's time is over: lets one session try, and the next one at
  // `next`.
  void LetOneTry(concurrency::Instant now, concurrency::Instant next) {
    if (free_ != 0u || now < full_until_) return;
    free_ = 1;
    full_until_ = next;
  }
  // The target said DRAINING: it takes no new sequences while its stream lives.
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
