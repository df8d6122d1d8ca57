#include "orchestrator/draft/length/paired_rounds.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tandem::orchestrator {

void PairedRounds::Add(Round first, Round second) {
  pairs_.push_back({first, second});
  first_ += first.seconds;
  second_ += second.seconds;
}

size_t PairedRounds::ClassOf(uint32_t candidates) {
  return std::min<size_t>(std::bit_width(candidates), kClasses - 1);
}

PairedRounds::Limits PairedRounds::SlowOf(Round Pair::*round) const {
  std::array<std::vector<double>, kClasses> times;
  for (const Pair& pair : pairs_) {
    times[ClassOf((pair.*round).candidates)].push_back((pair.*round).seconds);
  }
  Limits limits{};
  for (size_t i = 0; i < kClasses; ++i) {
    if (times[i].empty()) continue;
    const auto middle = times[i].begin() + static_cast<std::ptrdiff_t>(times[i].size() / 2);
    std::nth_element(times[i].begin(), middle, times[i].end());
    limits[i] = kSlow * *middle;
  }
  return limits;
}

PairedRounds::Comparison PairedRounds::Compare() const {
  const Limits slow_first = SlowOf(&Pair::first);
  const Limits slow_second = SlowOf(&Pair::second);
  double n = 0, first = 0, second = 0, first_squares = 0, second_squares = 0, products = 0;
  for (const Pair& pair : pairs_) {
    const double x = pair.first.seconds, y = pair.second.seconds;
    if (x > slow_first[ClassOf(pair.first.candidates)]) continue;
    if (y > slow_second[ClassOf(pair.second.candidates)]) continue;
    n += 1;
    first += x;
    second += y;
    first_squares += x * x;
    second_squares += y * y;
    products += x * y;
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
