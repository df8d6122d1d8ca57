#include "common/acceptance/block.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/acceptance/speculative.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/acceptance/expected_accepted.h"

namespace tandem::acceptance {
namespace {

using sampling::Distribution;
using sampling::SparseDistribution;
using ::testing::HasSubstr;

const double kLast = std::nextafter(1.0, 0);

std::vector<double> Accepts(const std::vector<Entry>& entries) {
  std::vector<double> accepts;
  for (const Entry& entry : entries) accepts.push_back(entry.accept_probability);
  return accepts;
}

double ExpectedByBlock(const std::vector<Entry>& entries) {
  return ExpectedAccepted(Rule::kBlock, entries);
}
double ExpectedBySpeculative(const std::vector<Entry>& entries) {
  return ExpectedAccepted(Rule::kSpeculative, entries);
}

// Two tokens, p = {1/3, 2/3}, q = {2/3, 1/3}, blocks of two: the example of the paper's
// introduction, 10/9 draft tokens for the speculative rule, 11/9 for this one.
TEST(BlockTest, TheExampleOfThePaper) {
  const Distribution p{{0, 1}, {1.0 / 3, 2.0 / 3}};
  const SparseDistribution q{{0, 1}, {2, 1}};
  const std::vector<Distribution> ps = {p, p, p};
  const std::vector<const SparseDistribution*> qs = {&q, &q};
  double block = 0, speculative = 0;
  for (uint32_t x : {0u, 1u}) {
    for (uint32_t y : {0u, 1u}) {
      const std::vector<uint32_t> candidates = {x, y};
      const std::vector<double> replace = {0.5, 0.5};
      block += q(x) * q(y) * ExpectedByBlock(JudgeBlock(ps, candidates, qs, replace, 0.5));
      speculative +=
          q(x) * q(y) * ExpectedBySpeculative(JudgeSpeculative(ps, candidates, qs, replace, 0.5));
    }
  }
  EXPECT_NEAR(speculative, 10.0 / 9, 1e-15);
  EXPECT_NEAR(block, 11.0 / 9, 1e-15);
}

TEST(BlockTest, ByHand) {
  const Distribution p{{0, 1, 2}, {0.5, 0.3, 0.2}};
  const SparseDistribution q{{0, 1}, {3, 1}};
  const std::vector<Distribution> ps = {p, p, p};
  const std::vector<const SparseDistribution*> qs = {&q, &q};
  const std::vector<uint32_t> candidates = {0, 1};
  // r_1 = 2/3; (r_1 p - q)+ = {0, 0, 2/15}; h_1 = (2/15) / (2/15 + 1/3) = 2/7; r_2 = 2/3 * 1.2 =
  // 0.8.
  const std::vector<Entry> entries =
      JudgeBlock(ps, candidates, qs, std::vector<double>{0.1, 0.1}, 0.6);
  EXPECT_THAT(Accepts(entries), ::testing::ElementsAre(1, ::testing::DoubleNear(2.0 / 7, 1e-15),
                                                       ::testing::DoubleNear(0.8, 1e-15)));
  EXPECT_EQ(entries[0].next_token, 1u);  // (p - q)+ = {0, 0.05, 0.2}
  EXPECT_EQ(entries[1].next_token, 2u);  // though p has more of 1 than q
  EXPECT_EQ(entries[2].next_token, 1u);  // the bonus, from p
  EXPECT_TRUE(ValidateEntries(Rule::kBlock, entries, 2, 3).ok());
}

TEST(BlockTest, EndsAtTheLastThatPasses) {
  const std::vector<Entry> entries = {{1, 5}, {0.5, 6}, {0.25, 7}, {0.125, 8}};
  const auto decide = [&](double u1, double u2, double u3) {
    return Decide(Rule::kBlock, entries, std::vector<double>{u1, u2, u3});
  };
  Decision d = decide(0.9, 0.9, 0.1);  // tests 1 and 2 fail, and do not matter
  EXPECT_EQ(d.accepted, 3u);
  EXPECT_EQ(d.next_token, 8u);
  EXPECT_FALSE(d.rejected);
  d = decide(0, 0.2, 0.125);  // strict
  EXPECT_EQ(d.accepted, 2u);
  EXPECT_EQ(d.next_token, 7u);
  EXPECT_TRUE(d.rejected);
  d = decide(0.4, 0.25, 0.9);
  EXPECT_EQ(d.accepted, 1u);
  EXPECT_EQ(d.next_token, 6u);
  d = decide(0.5, 0.9, 0.9);
  EXPECT_EQ(d.accepted, 0u);
  EXPECT_EQ(d.next_token, 5u);
  EXPECT_TRUE(d.rejected);
}

// A banned draft token: nothing of the block stands from there on, at u = 0 too.
TEST(BlockTest, ACandidateThatPRulesOut) {
  const Distribution p{{0, 1}, {0.5, 0.5}};
  const std::vector<Distribution> ps = {p, p, p, p};
  for (uint32_t banned : {2u, 0xffff'ffffu}) {
    const std::vector<Entry> entries =
        JudgeBlock(ps, std::vector<uint32_t>{0, banned, 0}, {}, std::vector<double>{0, 0.7, 0}, 0);
    EXPECT_THAT(Accepts(entries), ::testing::ElementsAre(1, 0.5, 0, 0));
    EXPECT_EQ(entries[1].next_token, 1u);
    EXPECT_FALSE(entries[2].next_token.has_value());
    EXPECT_TRUE(ValidateEntries(Rule::kBlock, entries, 3, 2).ok());
    EXPECT_EQ(Decide(Rule::kBlock, entries, std::vector<double>{0, 0, 0}).accepted, 1u);
    EXPECT_EQ(Decide(Rule::kBlock, entries, std::vector<double>{0.5, 0, 0}).accepted, 0u);
  }
}

// p = q to the bit, or but for rounding: no end without a token, whatever the uniforms.
TEST(BlockTest, NothingLeftWhereTheBlockStands) {
  const SparseDistribution q{{0, 1}, {1, 1}};
  for (double short_of : {0.0, 1e-13}) {
    const Distribution p{{0, 1}, {0.5 - short_of, 0.5}};
    const std::vector<Distribution> ps = {p, p, p, p};
    const std::vector<const SparseDistribution*> qs = {&q, &q, &q};
    const std::vector<Entry> entries =
        JudgeBlock(ps, std::vector<uint32_t>{0, 1, 0}, qs, std::vector<double>{0.5, 0.5, 0.5}, 0.5);
    EXPECT_THAT(Accepts(entries), ::testing::Each(1));
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(entries[i].next_token.has_value());
    EXPECT_TRUE(ValidateEntries(Rule::kBlock, entries, 3, 2).ok());
    const Decision d = Decide(Rule::kBlock, entries, std::vector<double>(3, kLast));
    EXPECT_EQ(d.accepted, 3u);
    EXPECT_FALSE(d.rejected);
  }
}

// r < 1 and nothing left: the block stands longer or shorter, but does not end there.
TEST(BlockTest, NothingLeftWhereTheBlockMayFall) {
  const Distribution p{{0, 1}, {0.5, 0.5}}, less{{0, 1}, {0.25, 0.75}};
  const SparseDistribution q{{0, 1}, {1, 1}};
  const std::vector<Distribution> ps = {less, p, p};
  const std::vector<const SparseDistribution*> qs = {&q, &q};
  const std::vector<Entry> entries =
      JudgeBlock(ps, std::vector<uint32_t>{0, 1}, qs, std::vector<double>{0.5, 0.5}, 0.5);
  EXPECT_THAT(Accepts(entries), ::testing::ElementsAre(1, 0, 0.5));
  EXPECT_FALSE(entries[1].next_token.has_value());
  EXPECT_EQ(entries[0].next_token, 1u);
  EXPECT_TRUE(ValidateEntries(Rule::kBlock, entries, 2, 2).ok());
  EXPECT_EQ(Decide(Rule::kBlock, entries, std::vector<double>{0, 0.4}).accepted, 2u);
  EXPECT_EQ(Decide(Rule::kBlock, entries, std::vector<double>{0, 0.5}).accepted, 0u);
}

// Many random verdicts, near ones and with one-hot places too: valid, never an end without a token.
TEST(BlockTest, AnyUniformsEndAtAToken) {
  std::mt19937 generator(5);
  for (int round = 0; round < 3000; ++round) {
    const int block = 1 + round % 5;
    std::vector<Distribution> ps;
    std::vector<SparseDistribution> qs;
    for (int i = 0; i <= block; ++i) {
      std::vector<float> logits(4);
      for (float& logit : logits) logit = static_cast<float>(generator() % 100) / 20;
      const uint32_t top_k = generator() % 5;
      ps.push_back(sampling::MakeDistribution(logits, 4, {.top_k = top_k}));
      if (generator() % 3 != 0) logits[generator() % 4] += 1;
      qs.push_back(Sparsify(sampling::MakeDistribution(logits, 4, {.top_k = top_k}), 4));
    }
    std::vector<uint32_t> candidates;
    std::vector<const SparseDistribution*> sent;
    for (int i = 0; i < block; ++i) {
      candidates.push_back(Draw(qs[i], (generator() % 1000) / 1000.0));
      sent.push_back(generator() % 8 == 0 ? nullptr : &qs[i]);
    }
    const std::vector<Entry> entries =
        JudgeBlock(ps, candidates, sent, std::vector<double>(block, 0.5), 0.5);
    EXPECT_TRUE(ValidateEntries(Rule::kBlock, entries, block, 4).ok());
    for (uint32_t cell = 0; cell < 1u << block; ++cell) {
      std::vector<double> uniforms;
      for (int i = 0; i < block; ++i) uniforms.push_back(cell >> i & 1 ? 0 : kLast);
      Decide(Rule::kBlock, entries, uniforms);  // CHECKs
    }
  }
}

TEST(BlockTest, IsNeverShorterOnAverage) {
  std::mt19937 generator(6);
  double gain = 0;
  for (int round = 0; round < 500; ++round) {
    const auto logits = [&] {
      std::vector<float> logits(3);
      for (float& logit : logits) logit = static_cast<float>(generator() % 100) / 30;
      return logits;
    };
    const Distribution p = sampling::MakeDistribution(logits(), 3, {});
    const SparseDistribution q = Sparsify(sampling::MakeDistribution(logits(), 3, {}), 3);
    const std::vector<Distribution> ps = {p, p, p, p};
    const std::vector<const SparseDistribution*> qs = {&q, &q, &q};
    const std::vector<double> replace = {0.5, 0.5, 0.5};
    double block = 0, speculative = 0;
    for (uint32_t choice = 0; choice < 27; ++choice) {
      const std::vector<uint32_t> x = {choice / 9, choice / 3 % 3, choice % 3};
      const double weight = q(x[0]) * q(x[1]) * q(x[2]);
      block += weight * ExpectedByBlock(JudgeBlock(ps, x, qs, replace, 0.5));
      speculative += weight * ExpectedBySpeculative(JudgeSpeculative(ps, x, qs, replace, 0.5));
    }
    EXPECT_GE(block, speculative - 1e-14);
    gain += block - speculative;
  }
  EXPECT_GT(gain / 500, 0.01);
}

TEST(BlockTest, OneHotBlocksGainNothing) {
  const Distribution p{{0, 1, 2}, {0.5, 0.3, 0.2}};
  const std::vector<Distribution> ps = {p, p, p};
  const std::vector<uint32_t> candidates = {0, 1};
  const std::vector<double> replace = {0.5, 0.5};
  EXPECT_NEAR(ExpectedByBlock(JudgeBlock(ps, candidates, {}, replace, 0.5)),
              ExpectedBySpeculative(JudgeSpeculative(ps, candidates, {}, replace, 0.5)), 1e-15);
}

TEST(ValidateBlockEntriesTest, BlockMustEndAtAToken) {
  const auto validate = [](const std::vector<Entry>& entries) {
    return ValidateEntries(Rule::kBlock, entries, static_cast<int>(entries.size()) - 1, 9);
  };
  const auto fails = [&](const std::vector<Entry>& entries, const char* why) {
    const absl::Status status = validate(entries);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  };
  const auto none = std::nullopt;
  EXPECT_TRUE(validate({{1, 5}}).ok());
  EXPECT_TRUE(validate({{1, 5}, {0, none}, {0.5, 6}}).ok());   // cannot pass
  EXPECT_TRUE(validate({{1, none}, {1, none}, {1, 6}}).ok());  // must go on
  EXPECT_TRUE(validate({{1, none}, {0.5, 4}, {1, 6}}).ok());   // the next one may fail, then
  EXPECT_TRUE(validate({{1, none}, {1, 4}, {0.5, 6}}).ok());   // it ends at 1 at the least
  fails({{1, none}, {0.9, 4}, {0.5, 6}}, "entry 0 has no next token, but the block may end there");
  fails({{1, 5}, {0.1, none}, {0.5, 6}}, "entry 1 has no next token, but the block may end there");
  fails({{1, 5}, {1, none}, {0.5, 6}}, "entry 1 has no next token");
  fails({{1, none}, {0, none}, {0.5, 6}}, "entry 0 has no next token");
  fails({{1, 5}, {0.5, 4}, {1, none}}, "the last entry, 2, has no next token");
  fails({{1, 5}, {0.5, 9}}, "entry 1 has next token 9");
  fails({{1, 5}, {std::numeric_limits<double>::quiet_NaN(), 4}}, "entry 1 has accept probability");
}

TEST(BlockDeathTest, AnEndWithoutAToken) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const std::vector<Entry> entries = {{1, std::nullopt}, {0.5, 6}};
  EXPECT_DEATH(Decide(Rule::kBlock, entries, std::vector<double>{0.5}), "has no next token");
}

}  // namespace
}  // namespace tandem::acceptance
