// Statistics of measured values. Nothing is averaged twice: percentiles are those of all values
// together.
//
// Thread safety: pure functions.
#pragma once

#include <vector>

namespace tandem::client {

struct Spread {
  double min = 0;
  double median = 0;
  double max = 0;
};

// Of no values: all 0. The median of an even number of values is the mean of the middle two.
Spread SpreadOf(std::vector<double> values);

// The nearest rank: the least of the values that a share `q` of them (above 0, to 1) does not
// exceed. So it is always a value that was measured. `sorted`: ascending, at least one.
double Percentile(const std::vector<double>& sorted, double q);

struct Percentiles {
  int count = 0;  // 0: the rest means nothing
  double p50 = 0;
  double p95 = 0;
  double p99 = 0;
};

Percentiles PercentilesOf(std::vector<double> values);

}  // namespace tandem::client
