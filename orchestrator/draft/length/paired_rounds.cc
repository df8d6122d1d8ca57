#include "orchestrator/draft/length/paired_rounds.h"

#include <algorithm>
#include <cmath>

namespace tandem::orchestrator {

void PairedRounds::Add(double first_seconds, double second_seconds) {
  ++count_;
  first_ += first_seconds;
  second_ += second_seconds;
  first_squares_ += first_seconds * first_seconds;
  second_squares_ += second_seconds * second_seconds;
  products_ += first_seconds * second_seconds;
}

double PairedRounds::Ratio() const { return std::log(second_ / first_); }

double PairedRounds::Error() const {
  if (count_ < 2) return 1;
  const double ratio = second_ / first_;
  const double residuals = second_squares_ - 2 * ratio * products_ + ratio * ratio * first_squares_;
  const double n = count_;
  return std::sqrt(std::max(0.0, residuals) / (n - 1) / n) / (second_ / n);
}

}  // namespace tandem::orchestrator
