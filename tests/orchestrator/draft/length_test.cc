#include <gtest/gtest.h>

#include "orchestrator/draft/length/fixed.h"
#include "orchestrator/draft/length/heuristic.h"

namespace tandem::orchestrator {
namespace {

TEST(FixedLength, StaysAsItIs) {
  FixedLength policy(7);
  policy.Observe(7, 0);
  policy.Observe(7, 7);
  EXPECT_EQ(policy.Next(), 7u);
}

TEST(HeuristicLength, TwoUpOneDownWithinItsBounds) {
  HeuristicLength policy;
  EXPECT_EQ(policy.Next(), 4u);
  policy.Observe(4, 4);
  EXPECT_EQ(policy.Next(), 6u);
  policy.Observe(6, 5);
  EXPECT_EQ(policy.Next(), 5u);
  for (int i = 0; i < 10; ++i) policy.Observe(5, 0);
  EXPECT_EQ(policy.Next(), 1u);
  for (int i = 0; i < 20; ++i) policy.Observe(policy.Next(), policy.Next());
  EXPECT_EQ(policy.Next(), kMaxDraftTokens);
}

}  // namespace
}  // namespace tandem::orchestrator
