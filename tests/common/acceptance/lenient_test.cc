#include "common/acceptance/lenient.h"

#include <vector>

#include "common/acceptance/speculative.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::acceptance {
namespace {

using sampling::Distribution;
using sampling::SparseDistribution;
using ::testing::DoubleNear;

const Distribution kP{{0, 1, 2}, {0.5, 0.3, 0.2}};
const SparseDistribution kQ{{1, 0}, {3, 1}};

TEST(LenientTest, ForgivesUpToOneOverTheLeniency) {
  const std::vector<Distribution> ps = {kP, kP, kP, kP};
  const std::vector<uint32_t> candidates = {1, 2, 9};
  const SparseDistribution unknown{{9}, {1}};
  const std::vector<const SparseDistribution*> sent = {&kQ, nullptr, &unknown};
  const std::vector<double> replace = {0.9, 0.1, 0.1};
  const std::vector<Entry> entries = JudgeLenient(ps, candidates, sent, 0.5, replace, 0.1);
  EXPECT_THAT(entries[1].accept_probability, DoubleNear(0.8, 1e-15));  // 0.3 / (0.5 * 0.75)
  EXPECT_THAT(entries[2].accept_probability, DoubleNear(0.4, 1e-15));  // 0.2 / 0.5
  EXPECT_EQ(entries[3].accept_probability, 0);                         // never what p rules out
  EXPECT_EQ(entries[0].next_token, 2u);                                // (p - q)+ = {0.25, 0, 0.2}
  EXPECT_EQ(entries[1].next_token, 0u);
  EXPECT_EQ(entries[2].next_token, 0u);
  EXPECT_EQ(entries[3].next_token, 0u);
  EXPECT_TRUE(ValidateEntries(Rule::kLenient, entries, 3, 3).ok());
  const std::vector<Entry> certain = JudgeLenient(ps, candidates, sent, 0.1, replace, 0.1);
  EXPECT_EQ(certain[1].accept_probability, 1);
  EXPECT_FALSE(certain[0].next_token.has_value());
}

TEST(LenientTest, LeniencyOneIsTheSpeculativeRule) {
  const std::vector<Distribution> ps = {kP, kP, kP};
  const std::vector<const SparseDistribution*> qs = {&kQ, nullptr};
  for (uint32_t x : {0u, 1u}) {
    const std::vector<uint32_t> candidates = {x, 2};
    const std::vector<double> replace = {0.9, 0.3};
    const std::vector<Entry> lenient = JudgeLenient(ps, candidates, qs, 1, replace, 0.6);
    const std::vector<Entry> speculative = JudgeSpeculative(ps, candidates, qs, replace, 0.6);
    for (size_t i = 0; i < lenient.size(); ++i) {
      EXPECT_EQ(lenient[i].accept_probability, speculative[i].accept_probability);
      EXPECT_EQ(lenient[i].next_token, speculative[i].next_token);
    }
  }
}

TEST(LenientTest, AtTemperatureZero) {
  const Distribution tie{{1, 3, 5}, {0.4, 0.4, 0.2}};
  const std::vector<Distribution> ps = {tie, tie, tie, tie};
  const std::vector<uint32_t> candidates = {5, 3, 7};
  const auto accepts = [&](double leniency) {
    const std::vector<Entry> entries = JudgeLenientGreedy(ps, candidates, leniency);
    EXPECT_TRUE(ValidateEntries(Rule::kLenient, entries, 3, 8).ok());
    std::vector<double> accepts;
    for (const Entry& entry : entries) {
      accepts.push_back(entry.accept_probability);
      EXPECT_EQ(entry.next_token.value_or(1), 1u);  // the lowest of the tie
    }
    return accepts;
  };
  EXPECT_THAT(accepts(1), ::testing::ElementsAre(1, 0, 1, 0));  // any of the largest stands
  EXPECT_THAT(accepts(0.51), ::testing::ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(accepts(0.5), ::testing::ElementsAre(1, 1, 1, 0));  // p >= l max p
  EXPECT_THAT(accepts(1e-9), ::testing::ElementsAre(1, 1, 1, 0));
  const std::vector<Entry> plain = JudgeLenientGreedy({{tie}}, {}, 0.5);
  ASSERT_EQ(plain.size(), 1u);
  EXPECT_EQ(plain[0].next_token, 1u);
}

TEST(LenientDeathTest, LeniencyIsAboveZeroToOne) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const std::vector<Distribution> ps = {kP};
  EXPECT_DEATH(JudgeLenient(ps, {}, {}, 0, {}, 0), "leniency");
  EXPECT_DEATH(JudgeLenientGreedy(ps, {}, 1.1), "leniency");
}

}  // namespace
}  // namespace tandem::acceptance
