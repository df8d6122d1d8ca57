#include "common/sampling/sparse.h"

#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::sampling {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SparsifyTest, LargestFirstScaledToSixteenBits) {
  Distribution q{{2, 4, 5, 8}, {0.1, 0.4, 0.2, 0.3}};
  SparseDistribution sparse = Sparsify(q, 3);
  EXPECT_THAT(sparse.ids, ElementsAre(4, 8, 5));
  EXPECT_THAT(sparse.weights, ElementsAre(65535, 49151, 32768));
  EXPECT_DOUBLE_EQ(sparse(8), 49151.0 / (65535 + 49151 + 32768));
  EXPECT_EQ(sparse(2), 0);
  EXPECT_THAT(Sparsify(q, 64).ids, ElementsAre(4, 8, 5, 2));
  EXPECT_THAT(Sparsify(q, 1).weights, ElementsAre(65535));
}

TEST(SparsifyTest, TiesToTheLowerIdAndNoneIsZero) {
  Distribution q{{1, 3, 5, 7, 9}, {0.25, 0.25, 0.25 - 1e-9, 1e-9, 0.25}};
  EXPECT_THAT(Sparsify(q, 2).ids, ElementsAre(1, 3));
  EXPECT_THAT(Sparsify(q, 3).ids, ElementsAre(1, 3, 9));
  SparseDistribution all = Sparsify(q, 5);
  EXPECT_THAT(all.ids, ElementsAre(1, 3, 9, 5, 7));
  EXPECT_THAT(all.weights, ElementsAre(65535, 65535, 65535, 65535, 1));
}

TEST(SparsifyTest, EqualsSortingAll) {
  std::mt19937 generator(4);
  for (int round = 0; round < 300; ++round) {
    std::vector<float> logits(1 + generator() % 600);
    for (float& logit : logits) {
      logit = std::round(std::normal_distribution<float>(0, 2)(generator) * 4) / 4;
    }
    Distribution q = MakeDistribution(logits, logits.size(), {});
    std::vector<size_t> order(q.ids.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return q.probabilities[a] > q.probabilities[b]; });
    SparseDistribution sparse = Sparsify(q, 1 + round % 64);
    ASSERT_EQ(sparse.ids.size(), std::min<size_t>(order.size(), 1 + round % 64));
    for (size_t j = 0; j < sparse.ids.size(); ++j) {
      EXPECT_EQ(sparse.ids[j], q.ids[order[j]]);
      EXPECT_NEAR(sparse.weights[j],
                  std::max(1.0, 65535 * q.probabilities[order[j]] / q.probabilities[order[0]]),
                  0.500001);
    }
    EXPECT_TRUE(ValidateFor(sparse, sparse.ids.back(), logits.size()).ok());
  }
}

// Every weight gets exactly its share of [0, 1).
TEST(SparseDrawTest, FollowsTheIntegerWeightsExactly) {
  SparseDistribution q{{9, 2, 4}, {500, 33, 1}};
  std::vector<int> counts(10);
  for (int k = 0; k < 534; ++k) {
    ++counts[Draw(q, (k + 0.001) / 534)];
    ++counts[Draw(q, (k + 0.999) / 534)];
  }
  EXPECT_EQ(counts[9], 1000);
  EXPECT_EQ(counts[2], 66);
  EXPECT_EQ(counts[4], 2);
  EXPECT_EQ(Draw(q, 0), 9u);
  const double last = std::nextafter(1.0, 0);
  EXPECT_EQ(Draw(q, last), 4u);
  std::vector<uint32_t> ids(64), weights(64, 65535);
  std::iota(ids.begin(), ids.end(), 0);
  EXPECT_EQ(Draw(SparseDistribution{ids, weights}, last), 63u);
}

TEST(ValidateForTest, SaysWhichCheckFails) {
  const SparseDistribution good{{4, 2}, {65535, 1}};
  EXPECT_TRUE(ValidateFor(good, 4, 5).ok());
  EXPECT_TRUE(ValidateFor(good, 2, 5).ok());
  auto fails = [](const SparseDistribution& q, uint32_t candidate, const char* why) {
    absl::Status status = ValidateFor(q, candidate, 5);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << why;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  };
  fails(good, 3, "its own draft token 3");
  fails({{4, 2}, {1}}, 4, "2 ids and 1 weights");
  fails({{}, {}}, 4, "0 entries");
  fails({std::vector<uint32_t>(65), std::vector<uint32_t>(65)}, 0, "65 entries");
  fails({{4, 5}, {2, 1}}, 4, "token 5");
  fails({{4, 2, 4}, {3, 2, 1}}, 4, "token 4 twice");
  fails({{4, 2}, {1, 0}}, 4, "weight 0");
  fails({{4, 2}, {65536, 1}}, 4, "weight 65536");
}

}  // namespace
}  // namespace tandem::sampling
