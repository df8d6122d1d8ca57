// The back-off of one who tries again: concurrency::Backoff with a count of failures and jitter of its own.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "common/concurrency/backoff.h"
#include "common/random/random.h"

namespace tandem::orchestrator {

// Not thread-safe.
class RetryDelay {
 public:
  // `seed`: of the jitter; two that share one wait alike.
  RetryDelay(absl::Duration min, absl::Duration max, uint64_t seed) : seed_(seed) {
    backoff_.initial = min;
    backoff_.max = max;
  }

  absl::Duration Next() {
    const double uniform = random::Uniform({seed_, 0, tries_++}, 0, random::Purpose::kUser);
    return backoff_.Delay(++failures_, uniform);
  }

  void Reset() { failures_ = 0; }

 private:
  concurrency::Backoff backoff_;
  const uint64_t seed_;
  int failures_ = 0;
  uint32_t tries_ = 0;
};

}  // namespace tandem::orchestrator
