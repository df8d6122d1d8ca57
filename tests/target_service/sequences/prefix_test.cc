// Sequences of one cache_scope that begin alike: a target computes what they share once, answers as
// if it had not, and shares nothing with other scopes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/target_service/harness.h"

namespace tandem::target_service::prefix_test {
namespace {

using ::testing::HasSubstr;

const std::vector<uint32_t> kPrompt = {1, 2, 3, 4, 5, 6, 7, 1, 2, 3};

testing::TableModelOptions Pages(int tokens = 4) {
  testing::TableModelOptions model;
  model.page_tokens = tokens;
  return model;
}

internal::v1::SequenceOptions In(const std::string& scope, uint64_t seed = 7) {
  internal::v1::SequenceOptions options = SampledOptions(seed);
  options.set_cache_scope(scope);
  return options;
}

TEST(TargetPrefix, TheSecondOfAScopeComputesWhatIsNotShared) {
  Harness target({}, Pages());
  auto stream = target.Connect();
  const internal::v1::Verdict first = target.Ask(stream, FirstStep(1, kPrompt, {4, 5}, In("a")));
  ASSERT_EQ(first.status(), internal::v1::STATUS_OK);
  EXPECT_EQ(first.cached_tokens(), 0u);
  // It shares what the second Step says is committed.
  target.Ask(stream, MakeStep(1, 2, kPrompt, 9));
  const int64_t before = target.model->rows();
  const internal::v1::Verdict second =
      target.Ask(stream, FirstStep(2, kPrompt, {4, 5}, In("a", 8)));
  EXPECT_EQ(second.cached_tokens(), 8u);
  EXPECT_EQ(target.model->rows() - before, 4);  // two of the prompt, two draft tokens
  EXPECT_TRUE(SameEntries(second, target.Expected(In("a", 8), kPrompt, {4, 5})));
}

TEST(TargetPrefix, OtherScopesComputeAll) {
  Harness target({}, Pages());
  auto stream = target.Connect();
  target.Ask(stream, FirstStep(1, kPrompt, {}, In("a")));
  target.Ask(stream, MakeStep(1, 2, kPrompt, 9));
  uint64_t sequence = 2;
  for (const char* scope : {"", "b", "aa"}) {
    const internal::v1::Verdict verdict =
        target.Ask(stream, FirstStep(sequence++, kPrompt, {}, In(scope)));
    EXPECT_EQ(verdict.cached_tokens(), 0u) << scope;
  }
  // Without a scope nothing is shared, not with themselves either.
  target.Ask(stream, MakeStep(2, 2, kPrompt, 9));
  EXPECT_EQ(target.Ask(stream, FirstStep(9, kPrompt, {}, In(""))).cached_tokens(), 0u);
}

TEST(TargetPrefix, LogProbabilitiesOfThePromptComputeAll) {
  Harness target({}, Pages());
  auto stream = target.Connect();
  target.Ask(stream, FirstStep(1, kPrompt, {}, In("a")));
  target.Ask(stream, MakeStep(1, 2, kPrompt, 9));
  internal::v1::SequenceOptions options = In("a");
  options.mutable_logprobs();
  internal::v1::Step step = FirstStep(2, kPrompt, {}, options);
  step.set_prompt_logprobs(true);
  const internal::v1::Verdict verdict = target.Ask(stream, step);
  ASSERT_EQ(verdict.status(), internal::v1::STATUS_OK) << verdict.ShortDebugString();
  EXPECT_EQ(verdict.cached_tokens(), 0u);
  EXPECT_EQ(verdict.prompt_logprobs_size(), 9);
}

// Nobody who behaves rolls back what was committed; a target must not write into what others share.
TEST(TargetPrefix, WhatIsSharedIsNotRolledBack) {
  Harness target({}, Pages());
  auto stream = target.Connect();
  target.Ask(stream, FirstStep(1, kPrompt, {}, In("a")));
  target.Ask(stream, MakeStep(1, 2, kPrompt, 9));
  std::vector<uint32_t> other = kPrompt;
  other[5] = 0;
  const internal::v1::Verdict refused = target.Ask(stream, MakeStep(1, 3, other, 5));
  EXPECT_EQ(refused.status(), internal::v1::STATUS_NEED_PREFIX);
  EXPECT_EQ(refused.problem().held(), 0u);
  EXPECT_THAT(refused.problem().message(), HasSubstr("shared"));
  internal::v1::Step replay = FirstStep(1, other, {2}, In("a"));
  replay.set_round(4);
  const internal::v1::Verdict verdict = target.Ask(stream, replay);
  EXPECT_EQ(verdict.cached_tokens(), 4u);
  EXPECT_TRUE(SameEntries(verdict, target.Expected(In("a"), other, {2})));
  // The others still have theirs.
  const internal::v1::Verdict third = target.Ask(stream, FirstStep(3, kPrompt, {2}, In("a")));
  EXPECT_EQ(third.cached_tokens(), 8u);
  EXPECT_TRUE(SameEntries(third, target.Expected(In("a"), kPrompt, {2})));
}

// Texts of a few families grow at random; each verdict is that of a sequence alone.
TEST(TargetPrefix, RandomTextsAreJudgedAsIfNothingWereShared) {
  std::mt19937 random(1);
  Harness target({}, Pages(2));
  auto stream = target.Connect();
  uint64_t cached = 0;
  for (uint64_t number = 1; number <= 200; ++number) {
    const internal::v1::SequenceOptions options = In(random() % 3 == 0 ? "b" : "a", number);
    std::vector<uint32_t> text;
    for (size_t length = 2 + random() % 12; text.size() < length;) text.push_back(random() % 2);
    uint32_t keep = 0;
    for (uint64_t round = 1; round <= 4; ++round) {
      std::vector<uint32_t> candidates;
      for (size_t count = random() % 4; candidates.size() < count;) {
        candidates.push_back(random() % 8);
      }
      internal::v1::Step step = MakeStep(number, round, text, keep, candidates);
      if (round == 1) *step.mutable_options() = options;
      const internal::v1::Verdict verdict = target.Ask(stream, step);
      ASSERT_EQ(verdict.status(), internal::v1::STATUS_OK) << verdict.ShortDebugString();
      ASSERT_TRUE(SameEntries(verdict, target.Expected(options, text, candidates)));
      cached += verdict.cached_tokens();
      keep = static_cast<uint32_t>(text.size());
      // Some draft tokens stand, and one token more.
      text.insert(text.end(), candidates.begin(),
                  candidates.begin() + static_cast<int>(random() % (candidates.size() + 1)));
      text.push_back(random() % 2);
    }
    if (random() % 2 == 0) Harness::Send(stream, {}, {number});
    if (number % 40 == 0) {
      for (uint64_t old = 1; old <= number; ++old) Harness::Send(stream, {}, {old});
      target.RunAll();
    }
  }
  EXPECT_GT(cached, 100u);
}

}  // namespace
}  // namespace tandem::target_service::prefix_test
