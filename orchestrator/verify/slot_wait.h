// Measures how long a request waits for a slot at a target: now and in total.
#pragma once

#include <optional>

#include "absl/time/time.h"
#include "common/concurrency/instant.h"

namespace tandem::orchestrator {

// Not thread-safe. All times are of one steady clock.
class SlotWait {
 public:
  // There was no slot at `now`. A wait that began before goes on.
  void Begin(concurrency::Instant now) {
    if (!since_.has_value()) since_ = now;
  }
  // There was a slot for the Step that was sent at `sent`.
  void End(concurrency::Instant sent) {
    if (since_.has_value() && sent > *since_) past_ += sent - *since_;
    since_.reset();
  }

  bool waiting() const { return since_.has_value(); }
  // The time of the present wait; zero if there is none.
  absl::Duration waited(concurrency::Instant now) const {
    return since_.has_value() ? now - *since_ : absl::ZeroDuration();
  }
  // The time of all waits.
  absl::Duration total(concurrency::Instant now) const { return past_ + waited(now); }

 private:
  std::optional<concurrency::Instant> since_;
  absl::Duration past_;
};

}  // namespace tandem::orchestrator
