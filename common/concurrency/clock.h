// Time as the logic sees it. Tests replace it by a fake clock.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "common/concurrency/instant.h"

namespace tandem::concurrency {

// A monotonic clock: it never goes back, and setting the time of day does not move it. Its epoch
// means nothing, so only the difference of two of its instants means something. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant Now() const = 0;
};

using TimerId = uint64_t;  // 0 is never given out

// Runs a function later. Thread-safe.
class Timers {
 public:
  virtual ~Timers() = default;
  // `function` runs once, on the timers' own thread, unless cancelled before; it must be short. A
  // timer may fire while it is being cancelled: its owner must be able to tell that it is stale.
  virtual TimerId After(absl::Duration delay, std::function<void()> function) = 0;
  virtual void Cancel(TimerId id) = 0;
};

}  // namespace tandem::concurrency
