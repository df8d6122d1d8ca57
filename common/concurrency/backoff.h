// How long to wait before the next attempt to connect. The wait grows exponentially. It has jitter,
// so that the clients of a restarted service do not all come back at the same moment. Pure.
#pragma once

#include <algorithm>
#include <cmath>

#include "absl/time/time.h"

namespace tandem::concurrency {

struct Backoff {
  absl::Duration initial = absl::Milliseconds(100);
  absl::Duration max = absl::Seconds(2);
  double factor = 1.6;
  double jitter = 0.2;  // the delay lies within +-this share of its mean; 0 to 1

  // `failures`: attempts that failed one after the other, at least 1. `uniform`: from [0, 1).
  absl::Duration Delay(int failures, double uniform) const {
    const double growth = std::pow(factor, std::clamp(failures - 1, 0, 64));
    const double mean =
        std::min(absl::ToDoubleSeconds(initial) * growth, absl::ToDoubleSeconds(max));
    return absl::Seconds(mean * (1.0 + jitter * (2.0 * uniform - 1.0)));
  }
};

}  // namespace tandem::concurrency
