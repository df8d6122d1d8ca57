#include "tests/common/acceptance/expected_accepted.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace tandem::acceptance {
namespace {

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

}  // namespace
}  // namespace tandem::acceptance
