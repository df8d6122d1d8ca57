// Decides whether the device waits briefly for the sequences that it has just answered.
//
// A pass includes the sequences that wait when the device becomes free. If its cost hardly depends
// on them, sequences that were just answered narrowly miss the next pass and wait for all of it:
// requests split into two alternating halves, and every pass is half empty. So the next pass may be
// delayed by up to a fifth of the last one's time, but only for sequences that returned that
// quickly before. Sequences that draft in between usually take longer, and are not waited for.
//
// Not thread-safe: used on the device's thread only. It has no clock.
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
  // `turnaround`: the sequence's time from its last verdict to its next Step; infinite:
  // unknown.
  void Answered(base::StreamId stream, base::SequenceId sequence, absl::Duration turnaround) {
    if (turnaround <= back_within_) expected_.insert({stream, sequence});
  }
  // It returned, or will not.
  void Settled(base::StreamId stream, base::SequenceId sequence) {
    expected_.erase({stream, sequence});
  }
  void StreamGone(base::StreamId stream) {
    absl::erase_if(expected_, [stream](const auto& key) { return key.first == stream; });
  }

  // A sequence may return until then; the infinite past: none.
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
