// How long to wait before the next try: doubling from `least` to `most`, with jitter, so that many
// who lost the same peer do not come back at the same moment.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "common/random/random.h"

namespace tandem::orchestrator {

// Not thread-safe.
class RetryDelay {
 public:
  // `seed`: of the jitter; two that share one wait alike.
  RetryDelay(absl::Duration least, absl::Duration most, uint64_t seed)
      : least_(least), most_(most), seed_(seed), delay_(least) {}

  // Between half of the delay and all of it.
  absl::Duration Next() {
    const double u = random::Uniform({seed_, 0, tries_++}, 0, random::Purpose::kUser);
    const absl::Duration delay = delay_ * (0.5 + 0.5 * u);
    delay_ = std::min(delay_ * 2, most_);
    return delay;
  }

  void Reset() { delay_ = least_; }

 private:
  const absl::Duration least_;
  const absl::Duration most_;
  const uint64_t seed_;
  absl::Duration delay_;
  uint32_t tries_ = 0;
};

}  // namespace tandem::orchestrator
