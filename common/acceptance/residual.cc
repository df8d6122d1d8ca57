#include "common/acceptance/residual.h"

#include <algorithm>

#include "common/base/check.h"

namespace tandem::acceptance {

using sampling::Distribution;
using sampling::SparseDistribution;

double CandidateProbability(uint32_t candidate, const SparseDistribution* q) {
  const double probability = q == nullptr ? 1 : (*q)(candidate);
  TANDEM_CHECK(probability > 0) << "q gives its draft token " << candidate << " nothing";
  return probability;
}

Residual::Residual(const Distribution& p, uint32_t candidate, const SparseDistribution* q,
                   double scale)
    : p_(p), scale_(scale) {
  if (q == nullptr) {
    Lower(candidate, 1);
    return;
  }
  TANDEM_CHECK(q->ids.size() <= lowered_.size());
  uint64_t sum = 0;
  for (uint32_t weight : q->weights) sum += weight;
  for (size_t j = 0; j < q->ids.size(); ++j) {
    Lower(q->ids[j], static_cast<double>(q->weights[j]) / static_cast<double>(sum));
  }
  std::sort(lowered_.begin(), lowered_.begin() + count_);
}

template <typename Visit>
void Residual::Walk(Visit visit) const {
  size_t next = 0;
  for (size_t i = 0; i < p_.ids.size(); ++i) {
    double rest = scale_ * p_.probabilities[i];
    if (next < count_ && lowered_[next].first == i) rest = lowered_[next++].second;
    if (visit(i, rest)) return;
  }
}

void Residual::Lower(uint32_t token, double by) {
  auto it = std::lower_bound(p_.ids.begin(), p_.ids.end(), token);
  if (it == p_.ids.end() || *it != token) return;  // p = 0 there: nothing to lower
  const size_t place = it - p_.ids.begin();
  lowered_[count_++] = {place, std::max(0.0, scale_ * p_.probabilities[place] - by)};
}

double Residual::Sum() const {
  double sum = 0;
  Walk([&](size_t, double rest) {
    sum += rest;
    return false;
  });
  return sum;
}

std::optional<uint32_t> Residual::Draw(double u) const {
  const double sum = Sum();
  if (sum <= 0) return std::nullopt;
  // The same additions in the same order: `cumulative` reaches `sum`, and u * sum is below it but
  // for rounding, when the last place with anything left is taken.
  const double target = u * sum;
  double cumulative = 0;
  size_t chosen = 0;
  Walk([&](size_t place, double rest) {
    if (rest <= 0) return false;
    chosen = place;
    cumulative += rest;
    return cumulative > target;
  });
  return p_.ids[chosen];
}

std::optional<uint32_t> DrawResidual(const Distribution& p, uint32_t candidate,
                                     const SparseDistribution* q, double u) {
  return Residual(p, candidate, q).Draw(u);
}

}  // namespace tandem::acceptance
