#include "tests/support/chi_square.h"

#include <math.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/base/check.h"

namespace tandem::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Not std::lgamma, which writes a global.
double LogGamma(double a) {
  int sign;
  return lgamma_r(a, &sign);
}

// log Q(a, x), the regularised upper incomplete gamma function.
// Series and continued fraction as in Abramowitz and Stegun 6.5.29 and 6.5.31 (the latter by the
// modified Lentz method).
double LogUpperGamma(double a, double x) {
  if (x <= 0) return 0;
  const double log_front = a * std::log(x) - x - LogGamma(a);
  if (x < a + 1) {
    double term = 1 / a, sum = term;
    for (double n = a + 1; term > sum * 1e-17; ++n) {
      term *= x / n;
      sum += term;
    }
    return std::log1p(-std::min(1.0, std::exp(log_front) * sum));
  }
  constexpr double kTiny = 1e-300;
  double b = x + 1 - a, c = 1 / kTiny, d = 1 / b, h = d;
  for (int i = 1; i < 1'000'000; ++i) {
    double an = -i * (i - a);
    b += 2;
    d = an * d + b;
    if (std::abs(d) < kTiny) d = kTiny;
    c = b + an / c;
    if (std::abs(c) < kTiny) c = kTiny;
    d = 1 / d;
    h *= d * c;
    if (std::abs(d * c - 1) < 1e-15) break;
  }
  return log_front + std::log(h);
}

struct Cell {
  double expected = 0;
  int64_t count = 0;
};

}  // namespace

double LogChiSquareTail(double statistic, int degrees) {
  if (degrees <= 0) return 0;
  return LogUpperGamma(degrees / 2.0, statistic / 2);
}

bool ChiSquare::Passes() const { return log_p > std::log(kSuiteFalseAlarm / kMaxTests); }

bool ChiSquare::ControlIsCaught() const { return log_p < std::log(kControlLevel); }

std::string ChiSquare::ToString() const {
  return absl::StrFormat("chi-square %.6g on %d degrees of freedom, log10(p) = %.4g, %d impossible",
                         statistic, degrees, log_p / std::log(10.0), impossible);
}

ChiSquare GoodnessOfFit(absl::Span<const double> probabilities, absl::Span<const int64_t> counts,
                        double min_expected) {
  TANDEM_CHECK(probabilities.size() == counts.size());
  double sum = 0;
  int64_t total = 0;
  for (double probability : probabilities) {
    TANDEM_CHECK(probability >= 0) << "a probability of " << probability;
    sum += probability;
  }
  TANDEM_CHECK(std::abs(sum - 1) < 1e-9) << "probabilities sum to " << sum;
  for (int64_t count : counts) total += count;
  TANDEM_CHECK(static_cast<double>(total) >= 2 * min_expected)
      << "only " << total << " observations";

  ChiSquare result;
  std::vector<Cell> cells;
  Cell pool;
  for (size_t i = 0; i < counts.size(); ++i) {
    double expected = probabilities[i] * static_cast<double>(total);
    if (expected == 0) {
      result.impossible += counts[i];
    } else if (expected < min_expected) {
      pool.expected += expected;
      pool.count += counts[i];
    } else {
      cells.push_back({expected, counts[i]});
    }
  }
  std::sort(cells.begin(), cells.end(),
            [](const Cell& a, const Cell& b) { return a.expected > b.expected; });
  while (pool.expected > 0 && pool.expected < min_expected && !cells.empty()) {
    pool.expected += cells.back().expected;
    pool.count += cells.back().count;
    cells.pop_back();
  }
  if (pool.expected > 0) cells.push_back(pool);
  for (const Cell& cell : cells) {
    double difference = static_cast<double>(cell.count) - cell.expected;
    result.statistic += difference * difference / cell.expected;
  }
  result.degrees = static_cast<int>(cells.size()) - 1;
  result.log_p =
      result.impossible > 0 ? -kInfinity : LogChiSquareTail(result.statistic, result.degrees);
  return result;
}

ChiSquare Combine(absl::Span<const ChiSquare> tests) {
  ChiSquare all;
  for (const ChiSquare& test : tests) {
    all.statistic += test.statistic;
    all.degrees += test.degrees;
    all.impossible += test.impossible;
  }
  all.log_p = all.impossible > 0 ? -kInfinity : LogChiSquareTail(all.statistic, all.degrees);
  return all;
}

double TotalVariation(absl::Span<const double> p, absl::Span<const double> q) {
  TANDEM_CHECK(p.size() == q.size());
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += std::abs(p[i] - q[i]);
  return sum / 2;
}

}  // namespace tandem::testing
