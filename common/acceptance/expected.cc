#include "common/acceptance/expected.h"

#include <algorithm>
#include <cstddef>

#include "common/acceptance/residual.h"

namespace tandem::acceptance {

double ExpectedAccepted(Rule rule, absl::Span<const Entry> entries) {
  double expected = 0;
  if (rule == Rule::kBlock) {
    double none_later = 1;
    for (size_t i = entries.size(); --i > 0;) {
      none_later *= 1 - entries[i].accept_probability;
      expected += 1 - none_later;
    }
    return expected;
  }
  double all = 1;
  for (size_t i = 1; i < entries.size(); ++i) {
    all *= entries[i].accept_probability;
    expected += all;
  }
  return expected;
}

double CoupledAcceptProbability(const sampling::Distribution& p, uint32_t candidate,
                                const sampling::SparseDistribution& q) {
  const double p_x = p(candidate), q_x = CandidateProbability(candidate, &q);
  if (p_x == 0) return 0;
  // All of p, and where q weighs more, what it weighs more.
  double total = 0, weights = 0;
  for (double probability : p.probabilities) total += probability / p_x;
  for (uint32_t weight : q.weights) weights += weight;
  for (size_t j = 0; j < q.ids.size(); ++j) {
    total += std::max(0.0, q.weights[j] / weights / q_x - p(q.ids[j]) / p_x);
  }
  return 1 / total / q_x;
}

}  // namespace tandem::acceptance
