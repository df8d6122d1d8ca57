// Times of several variants measured in turn (A B C A B C …), so that a noisy machine disturbs all
// alike.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
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

// Rows of a pass to measure; the first is what the others are compared with.
inline const std::vector<int>& PassRows() {
  static const std::vector<int> rows = {1, 2, 3, 4, 5, 6, 8, 12, 16};
  return rows;
}

// One line for each number of rows: time, and its ratio to one row of the same round.
inline void MeasureRows(const std::string& name, int rounds, const std::function<void(int)>& pass) {
  std::vector<std::vector<double>> times(PassRows().size());
  std::vector<std::vector<double>> ratios(PassRows().size());
  for (int rows : PassRows()) pass(rows);  // warms up
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < times.size(); ++i) {
      times[i].push_back(Microseconds([&] { pass(PassRows()[i]); }));
      ratios[i].push_back(times[i].back() / times[0].back());
    }
  }
  std::printf("\n%s\n%6s %12s %12s %12s   %s\n", name.c_str(), "rows", "least us", "median us",
              "most us", "to one row: least / median / most");
  for (size_t i = 0; i < times.size(); ++i) {
    const Spread time = SpreadOf(times[i]);
    const Spread ratio = SpreadOf(ratios[i]);
    std::printf("%6d %12.0f %12.0f %12.0f   %.2f / %.2f / %.2f%s\n", PassRows()[i], time.min,
                time.median, time.max, ratio.min, ratio.median, ratio.max,
                PassRows()[i] == 5 ? "   <- goal 1.25" : "");
  }
  std::fflush(stdout);
}

}  // namespace tandem::bench
