#include "common/acceptance/speculative.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "common/config/check.h"

namespace tandem::acceptance {
namespace {

using sampling::Distribution;
using sampling::SparseDistribution;

// (p - q)+ as p's probabilities with up to kMostSparseEntries of them lowered: places in p,
// ascending, and what is left there.
class Residual {
 public:
  Residual(const Distribution& p, uint32_t candidate, const SparseDistribution* q) : p_(p) {
    if (q == nullptr) {
      Lower(candidate, 1);
    } else {
      TANDEM_CHECK(q->ids.size() <= lowered_.size());
      uint64_t sum = 0;
      for (uint32_t weight : q->weights) sum += weight;
      for (size_t j = 0; j < q->ids.size(); ++j) {
        Lower(q->ids[j], static_cast<double>(q->weights[j]) / static_cast<double>(sum));
      }
    }
    std::sort(lowered_.begin(), lowered_.begin() + count_);
  }

  // Calls visit(place in p, residual there) in the order of ids, until it returns true.
  template <typename Visit>
  void Walk(Visit visit) const {
    size_t next = 0;
    for (size_t i = 0; i < p_.ids.size(); ++i) {
      double rest = p_.probabilities[i];
      if (next < count_ && lowered_[next].first == i) rest = lowered_[next++].second;
      if (visit(i, rest)) return;
    }
  }

 private:
  void Lower(uint32_t token, double by) {
    auto it = std::lower_bound(p_.ids.begin(), p_.ids.end(), token);
    if (it == p_.ids.end() || *it != token) return;  // p = 0 there: nothing to lower
    const size_t place = it - p_.ids.begin();
    lowered_[count_++] = {place, std::max(0.0, p_.probabilities[place] - by)};
  }

  const Distribution& p_;
  std::array<std::pair<size_t, double>, sampling::kMostSparseEntries> lowered_;
  size_t count_ = 0;
};

}  // namespace

double AcceptProbability(const Distribution& p, uint32_t candidate, const SparseDistribution* q) {
  const double q_candidate = q == nullptr ? 1 : (*q)(candidate);
  TANDEM_CHECK(q_candidate > 0) << "q gives its candidate " << candidate << " nothing";
  return std::min(1.0, p(candidate) / q_candidate);
}

std::optional<uint32_t> DrawResidual(const Distribution& p, uint32_t candidate,
                                     const SparseDistribution* q, double u) {
  const Residual residual(p, candidate, q);
  double sum = 0;
  residual.Walk([&](size_t, double rest) {
    sum += rest;
    return false;
  });
  if (sum <= 0) return std::nullopt;
  // The same additions in the same order: `cumulative` reaches `sum`, and u * sum is below it but
  // for rounding, when the last place with anything left is taken.
  const double target = u * sum;
  double cumulative = 0;
  size_t chosen = 0;
  residual.Walk([&](size_t place, double rest) {
    if (rest <= 0) return false;
    chosen = place;
    cumulative += rest;
    return cumulative > target;
  });
  return p.ids[chosen];
}

std::vector<Entry> JudgeSpeculative(absl::Span<const Distribution> p,
                                    absl::Span<const uint32_t> candidates,
                                    absl::Span<const SparseDistribution* const> q,
                                    absl::Span<const double> replace_uniforms,
                                    double bonus_uniform) {
  TANDEM_CHECK(p.size() == candidates.size() + 1);
  TANDEM_CHECK(q.empty() || q.size() == candidates.size());
  TANDEM_CHECK(replace_uniforms.size() == candidates.size());
  std::vector<Entry> entries(p.size());
  for (size_t i = 0; i < candidates.size(); ++i) {
    const SparseDistribution* q_i = q.empty() ? nullptr : q[i];
    double& accept = entries[i + 1].accept_probability;
    accept = AcceptProbability(p[i], candidates[i], q_i);
    if (accept < 1) {
      entries[i].next_token = DrawResidual(p[i], candidates[i], q_i, replace_uniforms[i]);
      if (!entries[i].next_token.has_value()) accept = 1;
    }
  }
  entries.back().next_token = sampling::Draw(p.back(), bonus_uniform);
  return entries;
}

}  // namespace tandem::acceptance
