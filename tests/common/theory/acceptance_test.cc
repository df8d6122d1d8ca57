#include "common/theory/acceptance.h"

#include "common/random/random.h"
#include "gtest/gtest.h"

namespace tandem::theory {
namespace {

double Number(uint64_t seed, uint32_t position) {
  return random::Uniform({seed}, position, random::Purpose::kUser);
}

// Rounds of K draft tokens: the estimate is alpha, accepted / drafted is not.
TEST(AcceptanceTheoryTest, AlphaOfCounts) {
  constexpr uint64_t kRounds = 50'000;
  constexpr uint32_t kCandidates = 5;
  uint64_t accepted = 0;
  uint64_t rejected_rounds = 0;
  for (uint64_t round = 0; round < kRounds; ++round) {
    uint32_t stands = 0;
    while (stands < kCandidates && Number(round, stands) < 0.8) ++stands;
    accepted += stands;
    rejected_rounds += stands < kCandidates ? 1 : 0;
  }
  EXPECT_NEAR(EstimateAlpha(accepted, rejected_rounds), 0.8, 0.01);
  EXPECT_NEAR(static_cast<double>(accepted) / (kRounds * kCandidates), 0.538, 0.01);
  EXPECT_EQ(EstimateAlpha(0, 0), 0);
  EXPECT_EQ(EstimateAlpha(5, 0), 1);
}

}  // namespace
}  // namespace tandem::theory
