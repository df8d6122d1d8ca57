// A moving average of durations. A new value counts one fifth.
#pragma once

#include "absl/time/time.h"

namespace tandem::orchestrator {

// `average` is zero if it has no value yet.
inline void Average(absl::Duration& average, absl::Duration measured) {
  constexpr double kWeight = 0.2;
  average =
      average == absl::ZeroDuration() ? measured : measured * kWeight + average * (1 - kWeight);
}

}  // namespace tandem::orchestrator
