#include "common/theory/acceptance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/random/random.h"
#include "gtest/gtest.h"

namespace tandem::theory {
namespace {

double Number(uint64_t seed, uint32_t position) {
  return random::Uniform({seed}, position, random::Purpose::kUser);
}

// A distribution with some zeros.
std::vector<double> Random(uint64_t seed, size_t size) {
  std::vector<double> p(size);
  for (size_t x = 0; x < size; ++x) {
    const double u = Number(seed, static_cast<uint32_t>(x));
    p[x] = u < 0.2 ? 0 : -std::log(u);
  }
  p[seed % size] += 1;
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= sum;
  return p;
}

size_t Race(const std::vector<double>& p, uint64_t seed) {
  size_t winner = 0;
  double min = INFINITY;
  for (size_t x = 0; x < p.size(); ++x) {
    if (p[x] == 0) continue;
    const double u = random::TokenUniform(seed, 0, 0, static_cast<uint32_t>(x));
    const double time = -std::log1p(-u) / p[x];
    if (time >= min) continue;
    min = time;
    winner = x;
  }
  return winner;
}

// The formula as it stands, token by token.
double CoupledByDefinition(const std::vector<double>& p, const std::vector<double>& q) {
  double alpha = 0;
  for (size_t x = 0; x < p.size(); ++x) {
    if (p[x] == 0 || q[x] == 0) continue;
    double sum = 0;
    for (size_t y = 0; y < p.size(); ++y) sum += std::max(p[y] / p[x], q[y] / q[x]);
    alpha += 1 / sum;
  }
  return alpha;
}

TEST(AcceptanceTheoryTest, SampledIsOneLessTheTotalVariation) {
  const std::vector<double> p = {0.5, 0.3, 0.2, 0};
  const std::vector<double> q = {0.1, 0.3, 0.2, 0.4};
  EXPECT_DOUBLE_EQ(SampledAcceptance(p, q), 0.6);
  EXPECT_DOUBLE_EQ(SampledAcceptance(p, p), 1);
}

TEST(AcceptanceTheoryTest, OneHot) {
  EXPECT_EQ(OneHotAcceptance({0.5, 0.3, 0.2}, {0.2, 0.4, 0.4}), 0.3);  // ties to the lowest id
}

TEST(AcceptanceTheoryTest, CoupledIsItsFormulaAndLiesBetweenItsBounds) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<double> p = Random(seed, 12);
    const std::vector<double> q = Random(seed + 1000, 12);
    const double best = SampledAcceptance(p, q);  // 1 - d
    const double coupled = CoupledAcceptance(p, q);
    EXPECT_NEAR(coupled, CoupledByDefinition(p, q), 1e-12);
    EXPECT_LE(coupled, best + 1e-12);
    EXPECT_GE(coupled, best / (2 - best) - 1e-12);
    EXPECT_NEAR(CoupledAcceptance(p, p), 1, 1e-12);
  }
  EXPECT_EQ(CoupledAcceptance({1, 0}, {0, 1}), 0);
}

TEST(AcceptanceTheoryTest, CoupledIsHowOftenTwoRacesAgree) {
  constexpr int kDraws = 100'000;
  const std::vector<double> p = Random(3, 8);
  const std::vector<double> q = Random(4, 8);
  int equal = 0;
  for (uint64_t seed = 0; seed < kDraws; ++seed) equal += Race(p, seed) == Race(q, seed) ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(equal) / kDraws, CoupledAcceptance(p, q), 0.01);
  EXPECT_LT(CoupledAcceptance(p, q), 0.9);  // nothing that agrees with everything passes
}

TEST(AcceptanceTheoryTest, LenienceGivesNoTokenMoreThanItsBound) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<double> p = Random(seed, 9);
    const std::vector<double> q = Random(seed + 1000, 9);
    for (double leniency : {1.0, 0.5, 0.3, 0.1}) {
      const std::vector<double> output = LenientOutput(p, q, leniency);
      EXPECT_NEAR(std::accumulate(output.begin(), output.end(), 0.0), 1, 1e-12);
      for (size_t x = 0; x < p.size(); ++x) {
        EXPECT_LE(output[x], p[x] / leniency + 1e-12);
        if (leniency == 1) {
          EXPECT_NEAR(output[x], p[x], 1e-12);
        }
      }
      EXPECT_GE(LenientAcceptance(p, q, leniency), SampledAcceptance(p, q));
    }
  }
}

// The bound is reached: where q is large, the output is p / l itself.
TEST(AcceptanceTheoryTest, LenienceIsNotExact) {
  const std::vector<double> p = {0.1, 0.9};
  const std::vector<double> q = {0.8, 0.2};
  EXPECT_DOUBLE_EQ(LenientOutput(p, q, 0.5)[0], 0.2);
  EXPECT_DOUBLE_EQ(LenientAcceptance(p, q, 0.5), 0.4);
  EXPECT_DOUBLE_EQ(LenientOutput(p, q, 0.125)[0], 0.8);  // all that the draft proposes
  EXPECT_EQ(LenientOutput(p, p, 0.5), p);
}

// Rounds of K candidates: the estimate is alpha, accepted / drafted is not.
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

TEST(AcceptanceTheoryDeathTest, ArgumentsOutsideTheirRanges) {
  EXPECT_DEATH(SampledAcceptance({1}, {0.5, 0.5}), "1 and 2");
  EXPECT_DEATH(LenientAcceptance({1}, {1}, 0), "leniency 0");
}

}  // namespace
}  // namespace tandem::theory
