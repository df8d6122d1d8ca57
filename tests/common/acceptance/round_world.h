// The two models of round_law.h, and the blocks that a draft may send.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/sampling/distribution.h"
#include "common/sampling/sparse.h"
#include "common/speculation/candidate_tree.h"
#include "tests/common/acceptance/round_law.h"
#include "tests/support/table_model.h"

namespace tandem::acceptance {

using Tokens = std::vector<uint32_t>;

// Has a q a token, as sent.
struct WeightedBlock : speculation::CandidateTree {
  double weight = 1;  // probability that the draft sends it
};

class World {
 public:
  explicit World(const Setting& setting);

  // p after `tokens`, which follow the prompt; `leftovers` count for the history alone.
  const sampling::Distribution& P(const Tokens& tokens, const Tokens& leftovers);
  // What the draft draws from after `tokens`.
  sampling::SparseDistribution Q(const Tokens& tokens);
  std::vector<WeightedBlock> Blocks(const Tokens& committed, const Tokens& leftovers);

 private:
  sampling::Distribution Make(const testing::TableModel& model,
                              const sampling::SamplingParameters& options, const Tokens& tokens,
                              const Tokens& leftovers) const;
  void Extend(const WeightedBlock& block, const Tokens& committed, const Tokens& leftovers,
              std::vector<WeightedBlock>& blocks);

  const Setting setting_;
  testing::TableModel target_, draft_;
  std::map<std::pair<Tokens, Tokens>, sampling::Distribution> p_;
};

// Visits every path of `horizon` tokens with its probability under one-by-one decoding.
template <typename Visit>
void ForEachPath(const Setting& setting, World& world, Tokens& path, double weight, Visit visit) {
  if (path.size() == static_cast<size_t>(setting.horizon)) {
    visit(path, weight);
    return;
  }
  const sampling::Distribution p = world.P(path, {});
  for (uint32_t token = 0; token < setting.vocabulary; ++token) {
    path.push_back(token);
    ForEachPath(setting, world, path, weight * p(token), visit);
    path.pop_back();
  }
}

}  // namespace tandem::acceptance
