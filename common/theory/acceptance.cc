#include "common/theory/acceptance.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "common/base/check.h"

namespace tandem::theory {
namespace {

void CheckSizes(absl::Span<const double> p, absl::Span<const double> q) {
  TANDEM_CHECK(p.size() == q.size() && !p.empty()) << p.size() << " and " << q.size();
}

}  // namespace

double SampledAcceptance(absl::Span<const double> p, absl::Span<const double> q) {
  return LenientAcceptance(p, q, 1);
}

double LenientAcceptance(absl::Span<const double> p, absl::Span<const double> q, double leniency) {
  CheckSizes(p, q);
  TANDEM_CHECK(leniency > 0 && leniency <= 1) << "leniency " << leniency;
  double alpha = 0;
  for (size_t x = 0; x < p.size(); ++x) alpha += std::min(p[x] / leniency, q[x]);
  return alpha;
}

double OneHotAcceptance(absl::Span<const double> p, absl::Span<const double> q) {
  CheckSizes(p, q);
  return p[static_cast<size_t>(std::max_element(q.begin(), q.end()) - q.begin())];
}

double CoupledAcceptance(absl::Span<const double> p, absl::Span<const double> q) {
  CheckSizes(p, q);
  // p(y)/p(x) is the larger of the two just when p(y)/q(y) >= p(x)/q(x): by falling p/q, tokens up
  // to x count with p, those after it with q.
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::erase_if(order, [&](size_t x) { return p[x] == 0 && q[x] == 0; });
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return p[a] * q[b] > p[b] * q[a]; });
  std::vector<double> q_after(order.size() + 1, 0);
  for (size_t i = order.size(); i-- > 0;) q_after[i] = q_after[i + 1] + q[order[i]];
  double alpha = 0;
  double p_before = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t x = order[i];
    p_before += p[x];
    if (p[x] == 0 || q[x] == 0) continue;
    alpha += 1 / (p_before / p[x] + q_after[i + 1] / q[x]);
  }
  return alpha;
}

std::vector<double> LenientOutput(absl::Span<const double> p, absl::Span<const double> q,
                                  double leniency) {
  const double rejected = 1 - LenientAcceptance(p, q, leniency);
  double rest = 0;
  for (size_t x = 0; x < p.size(); ++x) rest += std::max(0.0, p[x] - q[x]);
  std::vector<double> output(p.size());
  for (size_t x = 0; x < p.size(); ++x) {
    output[x] = std::min(p[x] / leniency, q[x]);
    if (rest > 0) output[x] += rejected * std::max(0.0, p[x] - q[x]) / rest;
  }
  return output;
}

double EstimateAlpha(uint64_t accepted, uint64_t rejected_rounds) {
  const double tested = static_cast<double>(accepted) + static_cast<double>(rejected_rounds);
  return tested == 0 ? 0 : static_cast<double>(accepted) / tested;
}

}  // namespace tandem::theory
