// Whether one target takes another sequence, as far as is known. The number of free slots is that
// of its last report, less the sequences that were sent there since; it is unknown before the first
// report. After NO_SLOT there is no free slot until a report says otherwise, one of our sequences
// ends there, or the time is over that the target asked for. Then one session may try.
//
// Room is counted likewise, in tokens; a target may say nothing of it. One session at a time waits
// for room there (target_pool.h). It asks again every now and then, though the report says that
// there is none: so the target knows of it, and keeps room for it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/concurrency/instant.h"
#include "orchestrator/verify/target_info.h"

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
    room_.reset();
    ask_from_ = concurrency::Instant::InfinitePast();
    asker_ = 0;
    return true;
  }

  void Reported(const FreeRoom& free, concurrency::Instant full_until) {
    free_ = free.slots;
    room_ = free.tokens;
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

  // A sequence was sent there, or ended there, that reserves so many tokens.
  void Took(int64_t tokens) {
    if (free_.has_value()) --*free_;
    if (room_.has_value()) *room_ -= tokens;
  }
  void Freed(int64_t tokens) {
    if (free_.has_value()) ++*free_;
    if (room_.has_value()) *room_ += tokens;
  }

  bool may_take() const { return free_ != 0u; }
  bool surely_has() const { return free_.value_or(0) > 0; }

  // Whether there may be room for so many tokens.
  bool may_have_room(int64_t tokens) const { return !room_.has_value() || *room_ >= tokens; }
  int64_t room() const { return room_.value_or(std::numeric_limits<int64_t>::max()); }
  // Nobody asks for room before `next`.
  void AskFrom(concurrency::Instant next) { ask_from_ = next; }
  bool may_ask(concurrency::Instant now) const { return now >= ask_from_; }
  // The session that has asked for room and has no answer yet; 0: there is none.
  void SetAsker(uint64_t session) { asker_ = session; }
  uint64_t asker() const { return asker_; }
  bool draining() const { return draining_; }

 private:
  base::Incarnation incarnation_{};
  bool draining_ = false;
  std::optional<uint32_t> free_;     // empty: unknown
  concurrency::Instant full_until_;  // when there is none: one may try then
  std::optional<int64_t> room_;      // free tokens; empty: unknown
  concurrency::Instant ask_from_ = concurrency::Instant::InfinitePast();
  uint64_t asker_ = 0;
};

}  // namespace tandem::orchestrator
