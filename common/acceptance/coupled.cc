#include "common/acceptance/coupled.h"

#include "common/acceptance/greedy.h"
#include "common/base/check.h"

namespace tandem::acceptance {

std::vector<Entry> JudgeCoupled(absl::Span<const sampling::Distribution> p,
                                absl::Span<const uint32_t> candidates,
                                const random::RoundKey& key) {
  TANDEM_CHECK(p.size() == candidates.size() + 1);
  std::vector<uint32_t> draws(p.size());
  for (uint32_t i = 0; i < draws.size(); ++i) {
    draws[i] = sampling::DrawRace(p[i], key.seed, key.sample_index, key.committed + i);
  }
  return JudgeGreedy(draws, candidates);
}

}  // namespace tandem::acceptance
