#include "common/acceptance/speculative.h"

#include <algorithm>
#include <cstddef>

#include "common/base/check.h"

namespace tandem::acceptance {

using sampling::Distribution;
using sampling::SparseDistribution;

double AcceptProbability(const Distribution& p, uint32_t candidate, const SparseDistribution* q) {
  return std::min(1.0, p(candidate) / CandidateProbability(candidate, q));
}

std::vector<Entry> JudgeByRatio(absl::Span<const Distribution> p,
                                absl::Span<const uint32_t> candidates,
                                absl::Span<const SparseDistribution* const> q, double leniency,
                                absl::Span<const double> recovered_uniforms, double bonus_uniform) {
  TANDEM_CHECK(p.size() == candidates.size() + 1);
  TANDEM_CHECK(q.empty() || q.size() == candidates.size());
  TANDEM_CHECK(recovered_uniforms.size() == candidates.size());
  TANDEM_CHECK(leniency > 0 && leniency <= 1) << leniency;
  std::vector<Entry> entries(p.size());
  for (size_t i = 0; i < candidates.size(); ++i) {
    const SparseDistribution* q_i = q.empty() ? nullptr : q[i];
    double& accept = entries[i + 1].accept_probability;
    // Not AcceptProbability / leniency: that would cut the ratio at 1 first.
    accept =
        std::min(1.0, p[i](candidates[i]) / (leniency * CandidateProbability(candidates[i], q_i)));
    if (accept < 1) {
      entries[i].next_token = DrawResidual(p[i], candidates[i], q_i, recovered_uniforms[i]);
      if (!entries[i].next_token.has_value()) accept = 1;
    }
  }
  entries.back().next_token = sampling::Draw(p.back(), bonus_uniform);
  return entries;
}

std::vector<Entry> JudgeSpeculative(absl::Span<const Distribution> p,
                                    absl::Span<const uint32_t> candidates,
                                    absl::Span<const SparseDistribution* const> q,
                                    absl::Span<const double> recovered_uniforms,
                                    double bonus_uniform) {
  return JudgeByRatio(p, candidates, q, /*leniency=*/1, recovered_uniforms, bonus_uniform);
}

}  // namespace tandem::acceptance
