#include "client/common/stats.h"

#include <algorithm>
#include <cmath>
#include <iterator>

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

namespace {

// The 0.975 quantile of Student's t with so many degrees of freedom, at least 2. Exact for few;
// beyond, the expansion of Abramowitz and Stegun, 26.7.5, to 0.001.
double StudentT(size_t degrees) {
  constexpr double kFew[] = {4.3027, 3.1824, 2.7764, 2.5706};
  if (degrees < 2 + std::size(kFew)) return kFew[degrees - 2];
  constexpr double z = 1.959964;
  const double n = static_cast<double>(degrees);
  const double z3 = z * z * z;
  const double z5 = z3 * z * z;
  return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n);
}

}  // namespace

std::optional<MeanFactor> MeanFactorOf(const std::vector<double>& factors) {
  if (factors.size() < 3) return std::nullopt;
  const double n = static_cast<double>(factors.size());
  double sum = 0;
  for (double factor : factors) {
    if (!(factor > 0)) return std::nullopt;
    sum += std::log(factor);
  }
  const double mean = sum / n;
  double squares = 0;
  for (double factor : factors) squares += (std::log(factor) - mean) * (std::log(factor) - mean);
  const double half = StudentT(factors.size() - 1) * std::sqrt(squares / (n - 1) / n);
  return MeanFactor{std::exp(mean), std::exp(mean - half), std::exp(mean + half)};
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
