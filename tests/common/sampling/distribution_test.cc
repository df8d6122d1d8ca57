#include "common/sampling/distribution.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/random/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/address_sanitizer.h"
#include "tests/support/chi_square.h"

namespace tandem::sampling {
namespace {

using ::testing::ElementsAre;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The header's words, as plainly as possible.
Distribution Reference(const std::vector<float>& logits, uint32_t vocabulary_size,
                       const SamplingParameters& parameters) {
  std::vector<uint32_t> ids(std::min<size_t>(vocabulary_size, logits.size()));
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](uint32_t a, uint32_t b) { return logits[a] > logits[b]; });
  if (parameters.temperature == 0) return {{ids[0]}, {1}};
  if (parameters.top_k > 0 && parameters.top_k < ids.size()) ids.resize(parameters.top_k);
  std::vector<double> weights;
  double sum = 0;
  for (uint32_t id : ids) {
    double x = (double{logits[id]} - double{logits[ids[0]]}) / parameters.temperature;
    weights.push_back(x < -700 ? 0 : std::exp(x));
    sum += weights.back();
  }
  if (parameters.top_p < 1) {
    double kept = 0;
    size_t count = 0;
    while (count < ids.size() && kept < parameters.top_p * sum) kept += weights[count++];
    ids.resize(count);
    sum = kept;
  }
  if (parameters.min_p > 0) {
    size_t count = 0;
    sum = 0;
    while (count < ids.size() && weights[count] >= parameters.min_p * weights[0]) {
      sum += weights[count++];
    }
    ids.resize(count);
  }
  std::vector<std::pair<uint32_t, double>> entries;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (weights[i] > 0) entries.emplace_back(ids[i], weights[i] / sum);
  }
  std::sort(entries.begin(), entries.end());
  Distribution p;
  for (auto& [id, probability] : entries) {
    p.ids.push_back(id);
    p.probabilities.push_back(probability);
  }
  return p;
}

void ExpectSame(const Distribution& p, const Distribution& reference) {
  ASSERT_EQ(p.ids, reference.ids);
  double sum = 0;
  for (size_t i = 0; i < p.ids.size(); ++i) {
    ASSERT_NEAR(p.probabilities[i], reference.probabilities[i], 1e-12 * reference.probabilities[i]);
    ASSERT_GT(p.probabilities[i], 0);
    sum += p.probabilities[i];
  }
  EXPECT_NEAR(sum, 1, 1e-12);
}

std::vector<float> RandomLogits(std::mt19937& generator, size_t size, int kind) {
  std::vector<float> logits(size);
  std::normal_distribution<float> normal(0, 4);
  for (float& logit : logits) {
    logit = normal(generator);
    if (kind == 1) logit = std::round(logit);  // many ties, 0 and -0
    if (kind == 2 && generator() % 3 == 0) logit = -kInfinity;
  }
  if (kind == 2) logits[generator() % size] = 1;
  return logits;
}

TEST(MakeDistributionTest, EqualsThePlainReference) {
  std::mt19937 generator(1);
  for (size_t size : {1, 2, 3, 7, 8, 9, 64, 65, 300, 1000, 4096}) {
    if (testing::kAddressSanitizer && size > 300) continue;
    for (int kind = 0; kind < 3; ++kind) {
      std::vector<float> logits = RandomLogits(generator, size, kind);
      for (double temperature : {0.0, 0.01, 0.7, 1.0, 100.0}) {
        for (uint32_t top_k : {0u, 1u, 5u, 64u, 5000u}) {
          for (double top_p : {1.0, 1 - 1e-7, 0.999, 0.95, 0.3, 1e-9}) {
            for (double min_p : {0.0, 1e-6, 0.07, 1.0}) {
              SCOPED_TRACE(::testing::Message()
                           << size << " " << kind << " t " << temperature << " k " << top_k << " p "
                           << top_p << " min " << min_p);
              SamplingParameters parameters{temperature, top_k, top_p, min_p};
              ExpectSame(MakeDistribution(logits, size, parameters),
                         Reference(logits, size, parameters));
            }
          }
        }
      }
    }
  }
}

TEST(MakeDistributionTest, LargeVocabularyWithPadding) {
  std::mt19937 generator(2);
  std::vector<float> logits = RandomLogits(generator, 131072, 0);
  const uint32_t vocabulary_size = 128'256;
  logits[130'000] = 1000;  // padding: must not count
  for (SamplingParameters parameters :
       {SamplingParameters{0, 0, 1}, SamplingParameters{0.8, 0, 1}, SamplingParameters{1, 50, 0.9},
        SamplingParameters{1.5, 0, 0.99}, SamplingParameters{1, 100'000, 1}}) {
    ExpectSame(MakeDistribution(logits, vocabulary_size, parameters),
               Reference(logits, vocabulary_size, parameters));
  }
  EXPECT_LT(ArgMax(logits, vocabulary_size), vocabulary_size);
  EXPECT_EQ(ArgMax(logits, 131072), 130'000u);
}

// A draft with logits for a part of the vocabulary: as if all others were next to impossible.
TEST(MakeDistributionTest, FewLegalLogitsGiveTheBitsOfAWholeRow) {
  std::mt19937 generator(7);
  std::normal_distribution<float> normal(0, 3);
  for (size_t size : {9u, 1001u, 1002u, 1003u, 1004u, 1005u}) {
    for (size_t step : {2u, 3u, 7u}) {
      std::vector<float> few(size, -kInfinity), all(size, -1e30f);
      for (size_t id = step - 1; id < size; id += step) few[id] = all[id] = normal(generator);
      for (uint32_t top_k : {0u, 5u}) {
        for (double top_p : {1.0, 1 - 0x1p-53, 0.9}) {
          for (double min_p : {0.0, 1e-9, 0.01}) {
            SamplingParameters parameters{0.7, top_k, top_p};
            parameters.min_p = min_p;
            const auto size32 = static_cast<uint32_t>(size);
            const Distribution p = MakeDistribution(few, size32, parameters);
            const Distribution expected = MakeDistribution(all, size32, parameters);
            EXPECT_EQ(p.ids, expected.ids);
            EXPECT_EQ(p.probabilities, expected.probabilities);
          }
        }
      }
    }
  }
}

TEST(MakeDistributionTest, TiesAtACutGoToTheLowerId) {
  std::vector<float> logits = {0.0f, 2, -0.0f, 2, 0.0f, 2};
  EXPECT_THAT(MakeDistribution(logits, 6, {1, 2, 1}).ids, ElementsAre(1, 3));
  EXPECT_THAT(MakeDistribution(logits, 6, {1, 4, 1}).ids, ElementsAre(0, 1, 3, 5));
  EXPECT_THAT(MakeDistribution(logits, 6, {1, 5, 1}).ids, ElementsAre(0, 1, 2, 3, 5));
  EXPECT_THAT(MakeDistribution(logits, 6, {1, 0, 0.5}).ids, ElementsAre(1, 3));
  EXPECT_THAT(MakeDistribution(logits, 6, {1, 0, 1e-300}).ids, ElementsAre(1));
  EXPECT_THAT(MakeDistribution(logits, 6, {0, 0, 1}).ids, ElementsAre(1));
  EXPECT_EQ(ArgMax(logits, 6), 1u);
}

// top-p counts what top-k left: 0.6 of {0.5, 0.3} is one token, of all it would be two.
TEST(MakeDistributionTest, TopPComesAfterTopK) {
  std::vector<float> logits;
  for (double p : {0.5, 0.3, 0.2}) logits.push_back(static_cast<float>(std::log(p)));
  EXPECT_THAT(MakeDistribution(logits, 3, {1, 2, 0.6}).ids, ElementsAre(0));
  EXPECT_THAT(MakeDistribution(logits, 3, {1, 0, 0.6}).ids, ElementsAre(0, 1));
}

TEST(MakeDistributionTest, ExtremeTemperaturesAndLogits) {
  std::vector<float> logits = {-3e38f, 3e38f, 3e38f, 0};
  for (double temperature : {1e-320, 1e-3, 1.0, 100.0}) {
    Distribution p = MakeDistribution(logits, 4, {temperature, 0, 1});
    EXPECT_THAT(p.ids, ElementsAre(1, 2));
    EXPECT_THAT(p.probabilities, ElementsAre(0.5, 0.5));
  }
  EXPECT_THAT(MakeDistribution({-kInfinity, -5.f, -kInfinity}, 3, {1, 2, 0.9}).ids, ElementsAre(1));
}

TEST(MakeDistributionTest, WhatIsNotFiniteGivesAnEmptyDistribution) {
  for (SamplingParameters parameters :
       {SamplingParameters{0, 0, 1}, SamplingParameters{1, 0, 1}, SamplingParameters{1, 2, 0.5}}) {
    for (size_t place : {0, 3, 4, 6}) {
      std::vector<float> logits = {1, 2, 3, 4, 5, 6, 7};
      logits[place] = kNan;
      EXPECT_TRUE(MakeDistribution(logits, 7, parameters).ids.empty());
      logits[place] = kInfinity;
      EXPECT_TRUE(MakeDistribution(logits, 7, parameters).ids.empty());
      logits[place] = -kInfinity;
      EXPECT_FALSE(MakeDistribution(logits, 7, parameters).ids.empty());
    }
    std::vector<float> none(7, -kInfinity);
    EXPECT_TRUE(MakeDistribution(none, 7, parameters).ids.empty());
    std::vector<float> padded = {1, 2, kNan};
    EXPECT_FALSE(MakeDistribution(padded, 2, parameters).ids.empty());
  }
  EXPECT_EQ(ArgMax({kNan, 1.f, kNan, 2.f, kNan}, 5), 3u);
  EXPECT_EQ(ArgMax({kNan, kNan}, 2), 0u);
}

// The bits, whatever compiler, vector width and machine: every text drawn from them depends on it.
TEST(MakeDistributionTest, GoldenBits) {
  std::vector<float> logits(1003);
  for (uint32_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>(random::Uniform({42, 0, 0}, i, random::Purpose::kUser) * 12 - 8);
  }
  uint64_t hash = 0;
  for (double temperature : {0.3, 0.7, 1.0}) {
    for (double top_p : {1.0, 0.9}) {
      Distribution p = MakeDistribution(logits, 1003, {temperature, 500, top_p});
      for (size_t i = 0; i < p.ids.size(); ++i) {
        uint64_t bits;
        std::memcpy(&bits, &p.probabilities[i], sizeof(bits));
        hash = (hash ^ bits ^ p.ids[i]) * 0x9e37'79b9'7f4a'7c15;
        hash ^= hash >> 29;
      }
    }
  }
  EXPECT_EQ(hash, 0x4623f5e12b294ec3u);
}

TEST(DistributionTest, LookUp) {
  Distribution sparse{{3, 7, 9}, {0.5, 0.25, 0.25}};
  EXPECT_EQ(sparse(3), 0.5);
  EXPECT_EQ(sparse(9), 0.25);
  for (uint32_t absent : {0u, 1u, 8u, 10u, 0xffffffffu}) EXPECT_EQ(sparse(absent), 0);
  Distribution dense{{0, 1, 2}, {0.5, 0.25, 0.25}};
  EXPECT_EQ(dense(1), 0.25);
  EXPECT_EQ(dense(3), 0);
  EXPECT_EQ(Distribution{}(0), 0);
}

TEST(DrawTest, InvertsTheDistributionFunction) {
  Distribution p{{3, 7, 9}, {0.5, 0.25, 0.25}};
  EXPECT_EQ(Draw(p, 0), 3u);
  EXPECT_EQ(Draw(p, std::nextafter(0.5, 0)), 3u);
  EXPECT_EQ(Draw(p, 0.5), 7u);
  EXPECT_EQ(Draw(p, 0.75), 9u);
  EXPECT_EQ(Draw(p, std::nextafter(1.0, 0)), 9u);
  Distribution shy{{1, 2}, {0.5, 0.5 - 1e-13}};  // sums to less than 1 by rounding
  EXPECT_EQ(Draw(shy, std::nextafter(1.0, 0)), 2u);
}

TEST(DrawRaceTest, FollowsP) {
  std::vector<float> logits = {0.3f, -1, 2, 0.5f, -3, 1, 0, 1.5f};
  Distribution p = MakeDistribution(logits, 8, {1, 6, 1});
  std::vector<double> expected(8);
  for (size_t i = 0; i < p.ids.size(); ++i) expected[p.ids[i]] = p.probabilities[i];
  std::vector<int64_t> counts(8);
  std::vector<int64_t> pairs(64);  // two positions in a row are independent
  std::vector<double> expected_pairs(64);
  for (int i = 0; i < 64; ++i) expected_pairs[i] = expected[i / 8] * expected[i % 8];
  uint32_t last = 0;
  for (uint32_t position = 0; position < 200'000; ++position) {
    uint32_t token = DrawRace(p, 7, 2, position);
    ++counts[token];
    if (position % 2 == 1) ++pairs[last * 8 + token];
    last = token;
  }
  testing::ChiSquare fit = testing::GoodnessOfFit(expected, counts);
  EXPECT_TRUE(fit.Passes()) << fit.ToString();
  fit = testing::GoodnessOfFit(expected_pairs, pairs);
  EXPECT_TRUE(fit.Passes()) << fit.ToString();
}

TEST(DrawRaceTest, IsTheArgMinOfTheWholeRace) {
  std::mt19937 generator(3);
  for (uint32_t position = 0; position < 200; ++position) {
    std::vector<float> logits = RandomLogits(generator, 1 + generator() % 500, position % 3);
    Distribution p = MakeDistribution(logits, logits.size(), {1, 0, 1});
    double best = kInfinity;
    uint32_t winner = 0;
    for (size_t i = 0; i < p.ids.size(); ++i) {
      double u = random::TokenUniform(9, 1, position, p.ids[i]);
      double time = -std::log1p(-u) / p.probabilities[i];
      if (time < best) {
        best = time;
        winner = p.ids[i];
      }
    }
    EXPECT_EQ(DrawRace(p, 9, 1, position), winner);
  }
}

// A draft and its target race with the same noise: the same token, unless p and q differ there.
TEST(DrawRaceTest, DrawsTheSameTokenFromNearlyTheSameDistribution) {
  Distribution p{{0, 1, 2, 3}, {0.4, 0.3, 0.2, 0.1}};
  Distribution q{{0, 1, 2, 3}, {0.41, 0.29, 0.2, 0.1}};
  int same = 0;
  for (uint32_t position = 0; position < 1000; ++position) {
    same += DrawRace(p, 1, 0, position) == DrawRace(q, 1, 0, position);
  }
  EXPECT_GT(same, 950);
}

}  // namespace
}  // namespace tandem::sampling
