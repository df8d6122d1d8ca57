// Whether the device waits a moment for those that it has just answered.
//
// A pass takes whoever waits when the device gets free. Where a pass costs nearly the same whatever
// is in it, those that were just answered would miss the next one by the blink of an eye that they
// need to come back, and wait out all of it: requests fall into two halves that take turns, and
// every pass is half empty. So the next pass may be held up by a fifth of the last one's time, for
// those alone that came back that quickly before. Who drafts in between takes longer as a rule, and
// is not waited for.
//
// Thread safety: none; the device's thread alone. No clock.
#pragma once

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/concurrency/instant.h"

namespace tandem::target_service {

class Gathering {
 public:
  // A pass ended, after `took`. Those that it answers follow.
  void PassEnds(concurrency::Instant now, absl::Duration took) {
    back_within_ = kShare * took;
    until_ = now + back_within_;
    expected_.clear();
  }
  // `turnaround`: what the sequence took from its last verdict to its next Step; infinite: not
  // known.
  void Answered(base::StreamId stream, base::SequenceId sequence, absl::Duration turnaround) {
    if (turnaround <= back_within_) expected_.insert({stream, sequence});
  }
  // It came back, or will not.
  void Settled(base::StreamId stream, base::SequenceId sequence) {
    expected_.erase({stream, sequence});
  }
  void StreamGone(base::StreamId stream) {
    absl::erase_if(expected_, [stream](const auto& key) { return key.first == stream; });
  }

  // Somebody may come back until then; the infinite past: nobody.
  concurrency::Instant until() const {
    return expected_.empty() ? concurrency::Instant::InfinitePast() : until_;
  }
  void GiveUp() { expected_.clear(); }

 private:
  static constexpr double kShare = 0.2;

  absl::Duration back_within_;
  concurrency::Instant until_;
  absl::flat_hash_set<std::pair<base::StreamId, base::SequenceId>> expected_;
};

}  // namespace tandem::target_service
