#include <algorithm>

#include "common/acceptance/greedy.h"
#include "gtest/gtest.h"
#include "tests/common/acceptance/round_law.h"
#include "tests/common/acceptance/round_world.h"

namespace tandem::acceptance {

std::vector<double> CoupledLaw(const Setting& setting, KnowingDraft candidate) {
  World world(setting);
  std::vector<double> law;
  Tokens path;
  ForEachPath(setting, world, path, 1, [&](const Tokens& path, double weight) {
    // What the race would have drawn after draft tokens that are not the path's: never looked at.
    for (uint32_t elsewhere : {0u, setting.vocabulary - 1}) {
      Tokens committed;
      while (committed.size() < path.size()) {
        const size_t from = committed.size();
        Tokens candidates, draws;
        bool on_path = true;
        for (size_t i = 0; i <= static_cast<size_t>(setting.block); ++i) {
          const bool known = on_path && from + i < path.size();
          draws.push_back(known ? path[from + i] : elsewhere);
          if (i == static_cast<size_t>(setting.block)) break;
          candidates.push_back(candidate(path, std::min(from + i, path.size() - 1)));
          on_path = on_path && candidates[i] == draws[i];
        }
        const std::vector<Entry> entries = JudgeGreedy(draws, candidates);
        const Decision decision =
            Decide(Rule::kCoupled, entries, std::vector<double>(candidates.size(), 0.5));
        committed.insert(committed.end(), candidates.begin(),
                         candidates.begin() + decision.accepted);
        committed.push_back(decision.next_token);
      }
      committed.resize(path.size());
      EXPECT_EQ(committed, path);
      if (committed != path) weight = 0;
    }
    law.push_back(weight);
  });
  return law;
}

}  // namespace tandem::acceptance
