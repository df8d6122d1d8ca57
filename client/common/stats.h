// Statistics of measured values. A percentile is always one of all values together, never a mean of
// percentiles.
//
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <vector>

namespace tandem::client {

struct Spread {
  double min = 0;
  double median = 0;
  double max = 0;
};

// The spread of no values is all 0. The median of an even number of values is the mean of the
// middle two.
Spread SpreadOf(std::vector<double> values);

// Where the mean of positive factors lies, by measured ones: their geometric mean, and its 95 %
// interval by Student's t of the logarithms. The interval says what the mean of more such
// measurements would be, and not between what single ones lie.
struct MeanFactor {
  double mean = 0;
  double low = 0;
  double high = 0;
};

// Absent for less than three factors, or one that is not positive.
std::optional<MeanFactor> MeanFactorOf(const std::vector<double>& factors);

// The percentile by nearest rank: the smallest value that at least a share `q` of the values (above
// 0, at most 1) does not exceed. So it is always a measured value. `sorted` is ascending and not
// empty.
double Percentile(const std::vector<double>& sorted, double q);

// a / b; 0 where b is 0.
inline double Ratio(double a, double b) { return b == 0 ? 0 : a / b; }

struct Percentiles {
  int count = 0;  // 0: the other fields have no meaning
  double p50 = 0;
  double p95 = 0;
  double p99 = 0;
};

Percentiles PercentilesOf(std::vector<double> values);

}  // namespace tandem::client
