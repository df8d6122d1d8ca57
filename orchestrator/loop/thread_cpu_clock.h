// The processor time of the calling thread: what a piece of work took, whoever else wanted the core.
#pragma once

#include <time.h>

#include "common/concurrency/clock.h"

namespace tandem::orchestrator {

// Two readings mean something together only on one thread, with no other work between them.
class ThreadCpuClock final : public concurrency::Clock {
 public:
  concurrency::Instant Now() const override {
    timespec now = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return concurrency::Instant(absl::DurationFromTimespec(now));
  }
};

}  // namespace tandem::orchestrator
