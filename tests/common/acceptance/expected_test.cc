#include "common/acceptance/expected.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace tandem::acceptance {
namespace {

using sampling::Distribution;
using sampling::SparseDistribution;

TEST(ExpectedAcceptedTest, ByHand) {
  const std::vector<Entry> entries = {{1, 1}, {0.5, 1}, {0.25, 1}};
  EXPECT_DOUBLE_EQ(ExpectedAccepted(Rule::kSpeculative, entries), 0.5 + 0.125);
  EXPECT_DOUBLE_EQ(ExpectedAccepted(Rule::kBlock, entries), 1 - 0.5 * 0.75 + 0.25);
  EXPECT_EQ(ExpectedAccepted(Rule::kBlock, {{{1, 1}}}), 0);
  EXPECT_EQ(ExpectedAccepted(Rule::kGreedy, {{{1, 1}, {1, 1}, {0, 1}, {1, 1}}}), 1);
}

// The formulas against what Decide does with so many uniforms: six standard errors.
TEST(ExpectedAcceptedTest, IsTheMeanOfDecide) {
  const std::vector<Entry> entries = {{1, 1}, {0.9, 1}, {0.3, 1}, {0.7, 1}, {0.45, 1}};
  constexpr int kDraws = 250'000;
  for (Rule rule : {Rule::kSpeculative, Rule::kBlock}) {
    double sum = 0, squares = 0;
    for (uint32_t draw = 0; draw < kDraws; ++draw) {
      const double accepted = Decide(rule, entries, AcceptUniforms({17, 0, draw}, 4)).accepted;
      sum += accepted;
      squares += accepted * accepted;
    }
    const double mean = sum / kDraws;
    const double error = std::sqrt((squares / kDraws - mean * mean) / kDraws);
    EXPECT_NEAR(mean, ExpectedAccepted(rule, entries), 6 * error) << Name(rule);
  }
}

// Both races with the same noise.
TEST(CoupledAcceptProbabilityTest, IsHowOftenTheRacesAgree) {
  const Distribution p{{0, 1, 2, 3}, {0.4, 0.3, 0.2, 0.1}};
  const SparseDistribution sparse{{1, 3, 0, 7}, {10, 5, 4, 1}};
  const Distribution q{{0, 1, 3, 7}, {0.2, 0.5, 0.25, 0.05}};
  std::vector<int> drawn(8), same(8);
  for (uint32_t place = 0; place < 300'000; ++place) {
    const uint32_t x = sampling::DrawRace(q, 7, 0, place);
    ++drawn[x];
    if (sampling::DrawRace(p, 7, 0, place) == x) ++same[x];
  }
  for (uint32_t x : q.ids) {
    const double expected = CoupledAcceptProbability(p, x, sparse);
    EXPECT_NEAR(static_cast<double>(same[x]) / drawn[x], expected,
                6 * std::sqrt(expected * (1 - expected) / drawn[x]))
        << x;
    EXPECT_LE(expected, std::min(1.0, p(x) / q(x)));  // no rule accepts more
  }
  EXPECT_EQ(CoupledAcceptProbability(p, 7, sparse), 0);
  EXPECT_NEAR(CoupledAcceptProbability({{0, 1}, {0.5, 0.5}}, 1, {{1, 0}, {3, 3}}), 1, 1e-15);
}

}  // namespace
}  // namespace tandem::acceptance
