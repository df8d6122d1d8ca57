// Measures how long a request waits for a slot at a target: now and in total.
#pragma once

#include <optional>

#include "absl/time/time.h"

namespace tandem::orchestrator {

// Not thread-safe. All times are of one steady clock.
class SlotWait {
 public:
  // There was no slot at `now`. A wait that began before goes on.
  void Begin(absl::Duration now) {
    if (!since_.has_value()) since_ = now;
  }
  // There was a slot for the Step that was sent at `sent`.
  void End(absl::Duration sent) {
    if (since_.has_value() && sent > *since_) past_ += sent - *since_;
    since_.reset();
  }

  bool waiting() const { return since_.has_value(); }
  // The time of the present wait; zero if there is none.
  absl::Duration waited(absl::Duration now) const {
    return since_.has_value() ? now - *since_ : absl::ZeroDuration();
  }
  // The time of all waits.
  absl::Duration total(absl::Duration now) const { return past_ + waited(now); }

 private:
  std::optional<absl::Duration> since_;
  absl::Duration past_;
};

}  // namespace tandem::orchestrator
