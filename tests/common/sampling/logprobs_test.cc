#include "common/sampling/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::sampling::logprobs_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A float's last bit, beside which the double's error counts for nothing.
void ExpectNear(float value, long double exact) {
  EXPECT_NEAR(static_cast<double>(value), static_cast<double>(exact),
              std::max(1e-15, std::abs(static_cast<double>(exact)) * 0x1.01p-24));
}

std::vector<long double> Reference(const std::vector<float>& logits) {
  const long double largest = *std::max_element(logits.begin(), logits.end());
  long double sum = 0;
  for (float logit : logits) sum += expl(logit - largest);
  std::vector<long double> logprobs;
  for (float logit : logits) logprobs.push_back(logit - largest - logl(sum));
  return logprobs;
}

TEST(LogprobsTest, OfTheModelEqualsTheReferenceInLongDouble) {
  std::mt19937 generator(1);
  for (int round = 0; round < 500; ++round) {
    std::normal_distribution<float> normal(static_cast<float>(round % 7 * 50), 0.1f + round % 20);
    std::vector<float> logits(1 + generator() % 200);
    for (float& logit : logits) logit = normal(generator);
    if (round % 3 == 0) logits.push_back(-kInfinity);
    const std::vector<long double> reference = Reference(logits);
    const uint32_t vocabulary_size = static_cast<uint32_t>(logits.size());
    logits.push_back(1000);  // padding: must not count
    const Logprobs logprobs = Logprobs::OfModel(logits, vocabulary_size);
    for (uint32_t id = 0; id < vocabulary_size; ++id) {
      if (logits[id] == -kInfinity) {
        EXPECT_EQ(logprobs(id), -kInfinity);
      } else {
        ExpectNear(logprobs(id), reference[id]);
      }
    }
    EXPECT_EQ(logprobs(vocabulary_size), -kInfinity);
  }
}

TEST(LogprobsTest, LargeLogitsDoNotSwallowTheSum) {
  const std::vector<float> logits = {1e30f, 1e30f, -1e30f};
  const Logprobs logprobs = Logprobs::OfModel(logits, 3);
  EXPECT_FLOAT_EQ(logprobs(0), -std::log(2.0f));
  EXPECT_FLOAT_EQ(logprobs(2), -2e30f);
}

TEST(LogprobsTest, OfTheDistribution) {
  const Distribution p{{1, 4, 6, 7}, {0.5, 0.25, 0.25 - 1e-309, 1e-309}};
  const Logprobs logprobs = Logprobs::OfDistribution(p);
  EXPECT_EQ(logprobs(1), std::log(0.5f));
  EXPECT_EQ(logprobs(4), std::log(0.25f));
  ExpectNear(logprobs(7), logl(static_cast<long double>(1e-309)));  // not a normal number
  EXPECT_EQ(logprobs(0), -kInfinity);
  EXPECT_EQ(logprobs(99), -kInfinity);
  EXPECT_EQ(Logprobs::OfDistribution({{3}, {1}})(3), 0);
  const Distribution none;
  EXPECT_EQ(Logprobs::OfDistribution(none)(0), -kInfinity);
  EXPECT_THAT(Logprobs::OfDistribution(none).Top(3), IsEmpty());
}

TEST(LogprobsTest, TopFallsWithTiesToTheLowerId) {
  const std::vector<float> logits = {1, 3, -kInfinity, 3, 2, 100};
  const Logprobs logprobs = Logprobs::OfModel(logits, 5);
  const auto ids = [](const std::vector<TokenLogprob>& top) {
    std::vector<uint32_t> ids;
    for (const TokenLogprob& entry : top) ids.push_back(entry.token);
    return ids;
  };
  EXPECT_THAT(ids(logprobs.Top(0)), IsEmpty());
  EXPECT_THAT(ids(logprobs.Top(1)), ElementsAre(1));
  EXPECT_THAT(ids(logprobs.Top(3)), ElementsAre(1, 3, 4));
  EXPECT_THAT(ids(logprobs.Top(20)), ElementsAre(1, 3, 4, 0));  // none of probability 0
  for (const TokenLogprob& entry : logprobs.Top(20)) {
    EXPECT_EQ(entry.logprob, logprobs(entry.token));
  }
  const Distribution p{{1, 4, 6}, {0.25, 0.25, 0.5}};
  EXPECT_THAT(ids(Logprobs::OfDistribution(p).Top(2)), ElementsAre(6, 1));
  // A difference that a float cannot show still ranks.
  const std::vector<float> near = {std::nextafter(1e-10f, 0.0f), 1e-10f};
  EXPECT_EQ(Logprobs::OfModel(near, 2)(0), Logprobs::OfModel(near, 2)(1));
  EXPECT_THAT(ids(Logprobs::OfModel(near, 2).Top(1)), ElementsAre(1));
}

TEST(LogprobsTest, TopOfManyIsThatOfASort) {
  std::mt19937 generator(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> logits(1 + generator() % 500);
    for (float& logit : logits) logit = static_cast<float>(generator() % 40);  // many ties
    std::vector<uint32_t> ids(logits.size());
    for (uint32_t id = 0; id < ids.size(); ++id) ids[id] = id;
    std::stable_sort(ids.begin(), ids.end(),
                     [&](uint32_t a, uint32_t b) { return logits[a] > logits[b]; });
    const auto top = Logprobs::OfModel(logits, static_cast<uint32_t>(logits.size())).Top(20);
    ASSERT_EQ(top.size(), std::min<size_t>(20, logits.size()));
    for (size_t i = 0; i < top.size(); ++i) EXPECT_EQ(top[i].token, ids[i]);
  }
}

TEST(LogprobsTest, WhatIsNotFiniteGivesNaN) {
  for (float bad : {kNan, kInfinity}) {
    for (size_t place : {0, 2}) {
      std::vector<float> logits = {1, 2, 3};
      logits[place] = bad;
      const Logprobs logprobs = Logprobs::OfModel(logits, 3);
      for (uint32_t id = 0; id < 3; ++id) EXPECT_TRUE(std::isnan(logprobs(id)));
      EXPECT_EQ(logprobs(3), -kInfinity);
      EXPECT_THAT(logprobs.Top(3), IsEmpty());
    }
  }
  const std::vector<float> none(4, -kInfinity);
  EXPECT_TRUE(std::isnan(Logprobs::OfModel(none, 4)(1)));
  EXPECT_THAT(Logprobs::OfModel(none, 4).Top(2), IsEmpty());
  const std::vector<float> padded = {1, kNan};
  EXPECT_EQ(Logprobs::OfModel(padded, 1)(0), 0);
}

}  // namespace
}  // namespace tandem::sampling::logprobs_test
