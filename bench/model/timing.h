// Times of several variants measured interleaved (A B C A B C …), so that a noisy machine disturbs
// all alike.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

namespace tandem::bench {

inline double Microseconds(const std::function<void()>& work) {
  auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

struct Spread {
  double min;
  double median;
  double max;
};

inline Spread SpreadOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values.front(), values[values.size() / 2], values.back()};
}

// Times of passes by rows, which a round measures one after the other, beginning with the first of
// `sizes`.
class RowTimes {
 public:
  explicit RowTimes(std::vector<int> sizes)
      : sizes_(std::move(sizes)), times_(sizes_.size()), ratios_(sizes_.size()) {}

  // One round: pass(rows) for each size, timed, each after prepare(). A round that warms up is not
  // kept.
  void Round(bool kept, const std::function<void()>& prepare,
             const std::function<void(int rows)>& pass) {
    double one = 0;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      prepare();
      const double time = Microseconds([&] { pass(sizes_[i]); });
      if (i == 0) one = time;
      if (!kept) continue;
      times_[i].push_back(time);
      ratios_[i].push_back(time / one);
    }
  }

  // Of the first size, by round.
  const std::vector<double>& first() const { return times_.front(); }

  void Print() const {
    for (size_t i = 0; i < sizes_.size(); ++i) {
      const Spread time = SpreadOf(times_[i]);
      const Spread ratio = SpreadOf(ratios_[i]);
      std::printf("  %2d rows %9.2f / %9.2f / %9.2f ms   to one row %.2f / %.2f / %.2f\n",
                  sizes_[i], time.min / 1e3, time.median / 1e3, time.max / 1e3, ratio.min,
                  ratio.median, ratio.max);
    }
    std::fflush(stdout);
  }

 private:
  const std::vector<int> sizes_;
  std::vector<std::vector<double>> times_;
  std::vector<std::vector<double>> ratios_;
};

}  // namespace tandem::bench
