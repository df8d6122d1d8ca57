// The processor time of the calling thread: what a piece of work cost, whoever else used the core.
#pragma once

#include <time.h>

#include "absl/time/time.h"
#include "common/concurrency/clock.h"

namespace tandem::concurrency {

// Two readings can be compared if they are of one thread with no other work between them.
class ThreadCpuClock final : public Clock {
 public:
  Instant Now() const override {
    timespec now = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return Instant(absl::DurationFromTimespec(now));
  }
};

}  // namespace tandem::concurrency
