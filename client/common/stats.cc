#include "client/common/stats.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace tandem::client {

Spread SpreadOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {values.front(), median, values.back()};
}

double Percentile(const std::vector<double>& sorted, double q) {
  TANDEM_CHECK(!sorted.empty() && q > 0 && q <= 1);
  // 0.95 * 20 is a little more than 19 in binary; the rank of 0.95 among 20 is 19 all the same.
  const double rank = std::ceil(q * static_cast<double>(sorted.size()) - 1e-9);
  return sorted[std::min(sorted.size(), static_cast<size_t>(std::max(rank, 1.0))) - 1];
}

Percentiles PercentilesOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {static_cast<int>(values.size()), Percentile(values, 0.50), Percentile(values, 0.95),
          Percentile(values, 0.99)};
}

}  // namespace tandem::client
