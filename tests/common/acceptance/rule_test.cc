#include "common/acceptance/rule.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "common/acceptance/block.h"
#include "common/acceptance/coupled.h"
#include "common/acceptance/lenient.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::acceptance::rule_test {
namespace {

using random::Purpose;
using random::RoundKey;
using sampling::Distribution;
using sampling::SparseDistribution;
using ::testing::HasSubstr;

const Distribution kP{{0, 1, 2, 3}, {0.4, 0.3, 0.2, 0.1}};

TEST(DecideTest, StrictlyBelow) {
  std::vector<Entry> entries = {{1, 5}, {0.5, 6}, {0, 7}};
  auto decide = [&](double u0, double u1) {
    return Decide(Rule::kSpeculative, entries, std::vector<double>{u0, u1});
  };
  Decision d = decide(0.5, 0);
  EXPECT_EQ(d.accepted, 0u);
  EXPECT_EQ(d.next_token, 5u);
  EXPECT_TRUE(d.rejected);
  d = decide(std::nextafter(0.5, 0), 0);  // then u = 0 against probability 0: not accepted
  EXPECT_EQ(d.accepted, 1u);
  EXPECT_EQ(d.next_token, 6u);
  EXPECT_TRUE(d.rejected);
  entries[2].accept_probability = 1;
  d = decide(0, std::nextafter(1.0, 0));
  EXPECT_EQ(d.accepted, 2u);
  EXPECT_EQ(d.next_token, 7u);
  EXPECT_FALSE(d.rejected);
}

TEST(DecideTest, AnEntryWithoutNextTokenIsNotTheEnd) {
  std::vector<Entry> entries = {{1, std::nullopt}, {1, std::nullopt}, {0.5, 7}};
  Decision d = Decide(Rule::kSpeculative, entries, std::vector<double>{0.99, 0.99});
  EXPECT_EQ(d.accepted, 2u);
  EXPECT_EQ(d.next_token, 7u);
  EXPECT_FALSE(d.rejected);
}

TEST(DecideDeathTest, Shape) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  std::vector<Entry> entries = {{1, 5}, {1, std::nullopt}};
  EXPECT_DEATH(Decide(Rule::kSpeculative, entries, std::vector<double>{0.5}), "no next token");
  EXPECT_DEATH(Decide(Rule::kSpeculative, entries, {}), "CHECK failed");
}

TEST(JudgeTest, WithoutCandidatesItIsTheRaceWhateverTheRound) {
  for (Rule rule :
       {Rule::kGreedy, Rule::kSpeculative, Rule::kBlock, Rule::kCoupled, Rule::kLenient}) {
    for (uint32_t position = 0; position < 100; ++position) {
      std::vector<Distribution> p = {kP};
      std::vector<Entry> entries = Judge({rule, {77, 3, position}, p, {}, {}});
      ASSERT_EQ(entries.size(), 1u);
      EXPECT_EQ(entries[0].next_token, sampling::DrawRace(kP, 77, 3, position));
      Decision d = Decide(rule, entries, {});
      EXPECT_EQ(d.accepted, 0u);
      EXPECT_EQ(d.next_token, entries[0].next_token);
      EXPECT_FALSE(d.rejected);
    }
  }
}

TEST(JudgeTest, LenientAtTemperatureZeroIsArgMaxWithoutCandidates) {
  const std::vector<Distribution> p = {kP};
  for (uint32_t position = 0; position < 20; ++position) {
    const JudgeInput input{
        .rule = Rule::kLenient, .key = {77, 3, position}, .p = p, .greedy = true};
    EXPECT_EQ(Judge(input)[0].next_token, 0u);
  }
}

TEST(JudgeTest, SpeculativeDrawsFromItsOwnKeys) {
  const std::vector<Distribution> p = {kP, kP, kP};
  const std::vector<uint32_t> candidates = {0, 9};
  SparseDistribution q{{0, 1}, {3, 1}};
  const std::vector<const SparseDistribution*> qs = {&q, nullptr};
  for (uint32_t committed = 5; committed < 105; ++committed) {
    RoundKey key{77, 3, committed};
    std::vector<Entry> entries = Judge({Rule::kSpeculative, key, p, candidates, qs});
    ASSERT_EQ(entries.size(), 3u);
    EXPECT_DOUBLE_EQ(entries[1].accept_probability, 0.4 / 0.75);
    EXPECT_EQ(entries[2].accept_probability, 0);  // outside the vocabulary
    // (p - q)+ = {1: 0.05, 2: 0.2, 3: 0.1}
    double u = random::Uniform(key, committed, Purpose::kRecovered) * 0.35;
    EXPECT_EQ(entries[0].next_token, u < 0.05 ? 1u : u < 0.25 ? 2u : 3u);
    u = random::Uniform(key, committed + 1, Purpose::kRecovered);
    EXPECT_EQ(entries[1].next_token, sampling::Draw(kP, u));  // one-hot at 9: p itself
    u = random::Uniform(key, committed + 2, Purpose::kBonus);
    EXPECT_EQ(entries[2].next_token, sampling::Draw(kP, u));
  }
}

// Each rule is dispatched to its own half, with the uniforms of the same keys.
TEST(JudgeTest, EachRuleByItsOwnHalf) {
  const std::vector<Distribution> p = {kP, kP, kP};
  const std::vector<uint32_t> candidates = {0, 1};
  const SparseDistribution q{{0, 1}, {3, 1}};
  const std::vector<const SparseDistribution*> qs = {&q, nullptr};
  const RoundKey key{77, 3, 12};
  const std::vector<double> replace = {random::Uniform(key, 12, Purpose::kRecovered),
                                       random::Uniform(key, 13, Purpose::kRecovered)};
  const double bonus = random::Uniform(key, 14, Purpose::kBonus);
  const auto expect = [&](const JudgeInput& input, const std::vector<Entry>& entries) {
    const std::vector<Entry> judged = Judge(input);
    ASSERT_EQ(judged.size(), entries.size());
    for (size_t i = 0; i < judged.size(); ++i) {
      EXPECT_EQ(judged[i].accept_probability, entries[i].accept_probability);
      EXPECT_EQ(judged[i].next_token, entries[i].next_token);
    }
  };
  expect({Rule::kBlock, key, p, candidates, qs}, JudgeBlock(p, candidates, qs, replace, bonus));
  expect({Rule::kCoupled, key, p, candidates, qs}, JudgeCoupled(p, candidates, key));
  expect({Rule::kLenient, key, p, candidates, qs, 0.4},
         JudgeLenient(p, candidates, qs, 0.4, replace, bonus));
  expect({Rule::kLenient, key, p, candidates, qs, 0.7, true},
         JudgeLenientGreedy(p, candidates, 0.7));
}

TEST(RuleTest, OnlyLenientIsNotExact) {
  for (Rule rule : {Rule::kGreedy, Rule::kSpeculative, Rule::kBlock, Rule::kCoupled}) {
    EXPECT_TRUE(IsExact(rule)) << Name(rule);
  }
  EXPECT_FALSE(IsExact(Rule::kLenient));
  EXPECT_STREQ(Name(Rule::kBlock), "block");
}

TEST(JudgeTest, GreedyOfOneHotDistributions) {
  const std::vector<Distribution> p = {{{4}, {1}}, {{5}, {1}}};
  std::vector<Entry> entries = Judge({Rule::kGreedy, {1, 0, 3}, p, std::vector<uint32_t>{4}, {}});
  Decision d = Decide(Rule::kSpeculative, entries, AcceptUniforms({1, 0, 3}, 1));
  EXPECT_EQ(d.accepted, 1u);
  EXPECT_EQ(d.next_token, 5u);
}

TEST(JudgeDeathTest, Shape) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const std::vector<Distribution> p = {kP, kP};
  const std::vector<Distribution> empty = {{}};
  EXPECT_DEATH(Judge({Rule::kGreedy, {}, p, std::vector<uint32_t>{4}, {}}), "one-hot");
  EXPECT_DEATH(Judge({Rule::kSpeculative, {}, p, {}, {}}), "2 distributions for 0 draft tokens");
  EXPECT_DEATH(Judge({Rule::kSpeculative, {}, empty, {}, {}}), "no tokens");
}

TEST(AcceptUniformsTest, AreKeyedByPosition) {
  RoundKey key{9, 1, 40};
  std::vector<double> uniforms = AcceptUniforms(key, 3);
  ASSERT_EQ(uniforms.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(uniforms[i], random::Uniform(key, 40 + i, Purpose::kAccept));
  }
  EXPECT_TRUE(AcceptUniforms(key, 0).empty());
}

TEST(ValidateEntriesTest, SaysWhichCheckFails) {
  const std::vector<Entry> good = {{1, std::nullopt}, {1, 6}, {0.5, 7}};
  EXPECT_TRUE(ValidateEntries(Rule::kSpeculative, good, 2, 8).ok());
  auto fails = [&](std::vector<Entry> entries, const char* why) {
    absl::Status status = ValidateEntries(Rule::kSpeculative, entries, 2, 8);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << why;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  };
  std::vector<Entry> bad = good;
  bad.pop_back();
  fails(bad, "2 entries for 2 draft tokens");
  fails({}, "0 entries");
  bad = good;
  bad[2].next_token.reset();
  fails(bad, "the last entry, 2, has no next token");
  bad = good;
  bad[1].next_token = 8;
  fails(bad, "entry 1 has next token 8");
  for (double wrong : {-1e-9, 1.0000001, std::numeric_limits<double>::quiet_NaN(),
                       std::numeric_limits<double>::infinity()}) {
    bad = good;
    bad[2].accept_probability = wrong;
    fails(bad, "entry 2 has accept probability");
  }
  bad = good;
  bad[1].accept_probability = 0.999;
  fails(bad, "entry 0 has no next token, but its draft token may be rejected");
}

}  // namespace
}  // namespace tandem::acceptance::rule_test
