#include "orchestrator/draft/length/tree_estimate.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace tandem::orchestrator {
namespace {

// Tokens a round of a tree of 8 nodes, to those of the longest chain; and what twice the nodes add to that. By what
// was computed for an earlier demo pair at temperature 1: 3.08, 3.58, 4.10 and 4.62 for 8 to 64 nodes, 2.95 for the
// best chain. What was measured later is more (bench/README.md, Trees beside chains): a first trial comes too seldom
// rather than too often.
constexpr double kOfSmallest = 1.04;
constexpr double kOfDoubling = 0.17;

double Expected(const DraftShape& tree, double longest_chain) {
  const double doublings = std::log2(static_cast<double>(tree.nodes) / kMinPolicyNodes);
  return std::min(longest_chain * (kOfSmallest + kOfDoubling * doublings), tree.tokens + 1.0);
}

}  // namespace

void TreeEstimate::Observe(uint32_t shape, uint32_t came, uint32_t accepted) {
  TANDEM_CHECK(IsTree(shape) && shape < kShapes);
  sums_[shape - kFirstTree].Add(came, accepted);
}

double TreeEstimate::Tokens(uint32_t shape, double longest_chain) const {
  TANDEM_CHECK(IsTree(shape) && shape < kShapes);
  // How much better all trees so far were than this says.
  double expected = kPriorWeight;
  double had = kPriorWeight;
  for (size_t i = 0; i < sums_.size(); ++i) {
    expected += sums_[i].rounds * Expected(kTreeShapes[i], longest_chain);
    had += sums_[i].tokens();
  }
  const DraftShape tree = ShapeOf(shape);
  const double prior = std::min(Expected(tree, longest_chain) * had / expected, tree.tokens + 1.0);
  const ShapeSums& sums = sums_[shape - kFirstTree];
  return (kPriorWeight * prior + sums.tokens()) / (kPriorWeight + sums.rounds);
}

double TreeEstimate::TokensError(uint32_t shape) const {
  TANDEM_CHECK(IsTree(shape) && shape < kShapes);
  return sums_[shape - kFirstTree].TokensError(kPriorWeight);
}

double TreeEstimate::Nodes(uint32_t shape) const {
  TANDEM_CHECK(IsTree(shape) && shape < kShapes);
  const ShapeSums& sums = sums_[shape - kFirstTree];
  return sums.rounds == 0 ? ShapeOf(shape).nodes : sums.came / sums.rounds;
}

}  // namespace tandem::orchestrator
