// A point in time of one monotonic clock (clock.h).
//
// It is a type of its own because two things look like it and are not: a length of time
// (absl::Duration) and the time of day (absl::Time). The epoch means nothing: it is when the
// machine started, or what a test likes. So only the difference of two instants means something,
// and only if both are of one clock.
#pragma once

#include <compare>
#include <ostream>

#include "absl/time/time.h"

namespace tandem::concurrency {

// A value. Arithmetic saturates as absl::Duration's does: nothing moves an infinite instant.
class Instant {
 public:
  // The clock's epoch, which is never after what the clock shows.
  constexpr Instant() = default;
  // For clocks, and for a `since_epoch()` from elsewhere.
  constexpr explicit Instant(absl::Duration since_epoch) : since_epoch_(since_epoch) {}

  // Before and after all that a clock shows.
  static constexpr Instant InfinitePast() { return Instant(-absl::InfiniteDuration()); }
  static constexpr Instant InfiniteFuture() { return Instant(absl::InfiniteDuration()); }

  // For atomics and other libraries.
  constexpr absl::Duration since_epoch() const { return since_epoch_; }

  Instant& operator+=(absl::Duration by) {
    since_epoch_ += by;
    return *this;
  }
  Instant& operator-=(absl::Duration by) {
    since_epoch_ -= by;
    return *this;
  }
  friend Instant operator+(Instant a, absl::Duration by) { return a += by; }
  friend Instant operator+(absl::Duration by, Instant a) { return a += by; }
  friend Instant operator-(Instant a, absl::Duration by) { return a -= by; }
  friend absl::Duration operator-(Instant a, Instant b) { return a.since_epoch_ - b.since_epoch_; }

  friend constexpr bool operator==(Instant a, Instant b) {
    return a.since_epoch_ == b.since_epoch_;
  }
  friend constexpr std::strong_ordering operator<=>(Instant a, Instant b) {
    if (a.since_epoch_ == b.since_epoch_) return std::strong_ordering::equal;
    return a.since_epoch_ < b.since_epoch_ ? std::strong_ordering::less
                                           : std::strong_ordering::greater;
  }

  // For tests and logs.
  friend std::ostream& operator<<(std::ostream& out, Instant a) {
    return out << "epoch + " << a.since_epoch_;
  }

 private:
  absl::Duration since_epoch_;
};

}  // namespace tandem::concurrency
