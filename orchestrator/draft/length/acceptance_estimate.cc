#include "orchestrator/draft/length/acceptance_estimate.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace tandem::orchestrator {
namespace {

// Draft tokens of a chain that ends by confidence, to those of the best chain which brings as much:
// it leaves out what would have been rejected.
constexpr double kConfidentDrafted = 0.8;

// Tokens per round of a tree of 8 nodes, to those of the longest chain; and what twice the nodes
// add to that. By what was computed for an earlier demo pair at temperature 1: 3.08, 3.58, 4.10 and
// 4.62 for 8 to 64 nodes, 2.95 for the best chain. What was measured later is more
// (bench/README.md, Trees beside chains).
double TokensOfTree(const DraftShape& tree, double longest_chain) {
  const double doublings = std::log2(static_cast<double>(tree.nodes) / kMinPolicyNodes);
  return std::min(longest_chain * (1.04 + 0.17 * doublings), tree.tokens + 1.0);
}

}  // namespace

void AcceptanceEstimate::Observe(uint32_t shape, uint32_t asked, uint32_t came, uint32_t accepted) {
  // What was seen of other shapes fades, so that they are tried again some time.
  for (Sums& sums : whole_) {
    for (double* sum : {&sums.rounds, &sums.came, &sums.accepted}) *sum *= kKept;
  }
  if (!IsChain(shape)) {
    Sums& sums = whole_[shape - kFirstConfident];
    sums.rounds += 1;
    sums.came += came;
    sums.accepted += accepted;
  }
  if (IsTree(shape)) return;
  asked = IsChain(shape) ? std::min(asked, kMaxDraftTokens) : std::min(came, kMaxDraftTokens);
  all_tested_ = kKept * all_tested_ + std::min(asked, accepted + 1);
  all_accepted_ = kKept * all_accepted_ + std::min(asked, accepted);
  for (uint32_t i = 0; i < asked; ++i) {
    if (IsChain(shape)) {
      asked_[i] = kKept * asked_[i] + 1;
      came_[i] = kKept * came_[i] + (i < came ? 1 : 0);
    }
    if (i > accepted) continue;
    tested_[i] = kKept * tested_[i] + 1;
    accepted_[i] = kKept * accepted_[i] + (i < accepted ? 1 : 0);
  }
}

AcceptanceEstimate::Expected AcceptanceEstimate::Expect(uint32_t chain) const {
  TANDEM_CHECK(IsChain(chain));
  Expected expected;
  expected.tokens[0] = 1;
  expected.drafted[0] = 0;
  double all = 1, chance = kPrior, share = 1;
  for (uint32_t i = 0; i < kMaxDraftTokens; ++i) {
    // A position's prior is the chance of the one before.
    chance = (accepted_[i] + kPriorWeight * chance) / (tested_[i] + kPriorWeight);
    all *= chance;
    if (asked_[i] > 0) share = came_[i] / asked_[i];
    expected.tokens[i + 1] = expected.tokens[i] + all;
    expected.drafted[i + 1] = expected.drafted[i] + share;
  }
  // How much better all trees so far were than is said of them.
  double had = kPriorWeight, said = kPriorWeight;
  for (uint32_t shape = kFirstTree; shape < kShapes; ++shape) {
    const Sums& sums = whole_[shape - kFirstConfident];
    had += sums.rounds + sums.accepted;
    said += sums.rounds * TokensOfTree(ShapeOf(shape), expected.tokens[kMaxDraftTokens]);
  }
  for (uint32_t shape = kFirstConfident; shape < kShapes; ++shape) {
    const Sums& sums = whole_[shape - kFirstConfident];
    const DraftShape is = ShapeOf(shape);
    const double tree = had / said * TokensOfTree(is, expected.tokens[kMaxDraftTokens]);
    const double tokens = IsTree(shape) ? std::min(tree, is.tokens + 1.0) : expected.tokens[chain];
    const double drafted = IsTree(shape) ? is.nodes : kConfidentDrafted * expected.drafted[chain];
    const double weight = kPriorWeight + sums.rounds;
    expected.tokens[shape] = (kPriorWeight * tokens + sums.rounds + sums.accepted) / weight;
    expected.drafted[shape] = (kPriorWeight * drafted + sums.came) / weight;
  }
  return expected;
}

double AcceptanceEstimate::alpha() const { return empty() ? kPrior : all_accepted_ / all_tested_; }

}  // namespace tandem::orchestrator
