// What the phases of a trial that is repeated have shown, each beside those of the best length around it
// (length_search.h).
//
// Plain value, not thread-safe.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tandem::orchestrator {

class RepeatedTrials {
 public:
  // `ratio`: logarithm of the trial's time against the best length's. `error`: standard deviation of it.
  void Add(double ratio, double error) {
    ++count_;
    sum_ += ratio;
    squares_ += ratio * ratio;
    errors_ += error * error;
  }
  uint32_t count() const { return count_; }
  // count() is not 0.
  double Mean() const { return sum_ / count_; }
  // Of the mean, by how the ratios differ, or by what each is known to be uncertain by, whichever is more.
  double Error() const {
    const double n = count_;
    const double spread = n < 2 ? 0 : std::max(0.0, squares_ - sum_ * sum_ / n) / (n - 1);
    return std::sqrt(std::max(spread, errors_ / n) / n);
  }

 private:
  uint32_t count_ = 0;
  double sum_ = 0, squares_ = 0, errors_ = 0;
};

}  // namespace tandem::orchestrator
