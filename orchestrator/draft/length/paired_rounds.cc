#include "orchestrator/draft/length/paired_rounds.h"

#include <algorithm>
#include <cmath>

namespace tandem::orchestrator {

void PairedRounds::Add(double first_seconds, double second_seconds) {
  pairs_.push_back({first_seconds, second_seconds});
  first_ += first_seconds;
  second_ += second_seconds;
}

double PairedRounds::Median(double Pair::*time) const {
  std::vector<double> times;
  times.reserve(pairs_.size());
  for (const Pair& pair : pairs_) times.push_back(pair.*time);
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

PairedRounds::Comparison PairedRounds::Compare() const {
  const double slow_first = kSlow * Median(&Pair::first);
  const double slow_second = kSlow * Median(&Pair::second);
  double n = 0, first = 0, second = 0, first_squares = 0, second_squares = 0, products = 0;
  for (const Pair& pair : pairs_) {
    if (pair.first > slow_first || pair.second > slow_second) continue;
    n += 1;
    first += pair.first;
    second += pair.second;
    first_squares += pair.first * pair.first;
    second_squares += pair.second * pair.second;
    products += pair.first * pair.second;
  }
  if (n == 0) return {std::log(second_ / first_), 1};
  const double ratio = second / first;
  Comparison comparison{std::log(ratio), 1};
  if (n < 2) return comparison;
  const double residuals = second_squares - 2 * ratio * products + ratio * ratio * first_squares;
  comparison.error = std::sqrt(std::max(0.0, residuals) / (n - 1) / n) / (second / n);
  return comparison;
}

}  // namespace tandem::orchestrator
