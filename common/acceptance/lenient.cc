#include "common/acceptance/lenient.h"

#include <algorithm>
#include <cstddef>

#include "common/acceptance/speculative.h"
#include "common/base/check.h"

namespace tandem::acceptance {

using sampling::Distribution;
using sampling::SparseDistribution;

std::vector<Entry> JudgeLenient(absl::Span<const Distribution> p,
                                absl::Span<const uint32_t> candidates,
                                absl::Span<const SparseDistribution* const> q, double leniency,
                                absl::Span<const double> recovered_uniforms, double bonus_uniform) {
  return JudgeByRatio(p, candidates, q, leniency, recovered_uniforms, bonus_uniform);
}

std::vector<Entry> JudgeLenientGreedy(absl::Span<const Distribution> p,
                                      absl::Span<const uint32_t> candidates, double leniency) {
  TANDEM_CHECK(p.size() == candidates.size() + 1);
  TANDEM_CHECK(leniency > 0 && leniency <= 1) << leniency;
  std::vector<Entry> entries(p.size());
  for (size_t i = 0; i < p.size(); ++i) {
    // The first of the largest: the lowest id.
    const auto best = std::max_element(p[i].probabilities.begin(), p[i].probabilities.end());
    const uint32_t argmax = p[i].ids[best - p[i].probabilities.begin()];
    const bool stands = i < candidates.size() && p[i](candidates[i]) >= leniency * *best;
    if (i < candidates.size()) entries[i + 1].accept_probability = stands ? 1 : 0;
    if (!stands) entries[i].next_token = argmax;
  }
  return entries;
}

}  // namespace tandem::acceptance
