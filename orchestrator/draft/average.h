// A moving average of durations: what is new counts a fifth.
#pragma once

#include "absl/time/time.h"

namespace tandem::orchestrator {

// `average` zero: there is none yet.
inline void Average(absl::Duration& average, absl::Duration measured) {
  constexpr double kWeight = 0.2;
  average =
      average == absl::ZeroDuration() ? measured : measured * kWeight + average * (1 - kWeight);
}

}  // namespace tandem::orchestrator
