// Every engine of the list, on the demo model: it judges as the CPU's does, and what else is in a
// pass changes nothing. One whose library or device is not here is left out.
#include "target_service/engines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "tests/support/paths.h"

namespace tandem::target_service {
namespace {

using speculation::CandidateTree;
using speculation::SequenceSettings;

// What rounding to 16 bits may do to a log probability of this model, and no wrong row stays below.
constexpr float kTolerance = 0.3f;

EngineOptions DemoOptions() {
  EngineOptions options;
  options.model.directory = testing::SourcePath("demo/target");
  options.model.pool_tokens = 1024;
  options.model.max_rows = 64;
  return options;
}

// One Step of greedy decoding with log probabilities: a prompt, and two draft tokens after it.
struct Round {
  explicit Round(uint32_t seed) {
    for (uint32_t i = 0; i < 14; ++i) tokens.push_back((seed * 131 + i * 29 + i * i) % 500 + 3);
    block.tokens = {tokens[12], tokens[13]};
    targets.assign(tokens.begin() + 1, tokens.begin() + 12);
  }

  PassPart Part(EngineSequence& sequence, std::shared_ptr<const SequenceSettings> settings) const {
    PassPart part;
    part.sequence = &sequence;
    part.settings = std::move(settings);
    part.tokens = tokens;
    part.block = &block;
    part.prompt_targets = targets;
    return part;
  }

  std::vector<uint32_t> tokens;
  CandidateTree block;
  std::vector<uint32_t> targets;
};

std::vector<PartResult> Judge(Engine& engine, const std::vector<Round>& rounds) {
  auto settings = std::make_shared<SequenceSettings>();
  settings->sampling.temperature = 0;
  settings->logprobs = sampling::LogprobOptions{.top = 2};
  std::vector<std::unique_ptr<EngineSequence>> sequences;
  std::vector<PassPart> parts;
  for (const Round& round : rounds) {
    auto sequence = engine.Open(32);
    TANDEM_CHECK_OK(sequence);
    sequences.push_back(*std::move(sequence));
    parts.push_back(round.Part(*sequences.back(), settings));
  }
  engine.Launch(std::move(parts));
  PassResult result = engine.Await();
  EXPECT_TRUE(result.status.ok()) << result.status;
  return std::move(result.parts);
}

class EnginesTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto engine = EngineNamed(GetParam()).open(DemoOptions());
    if (absl::IsNotFound(engine.status()) || absl::IsFailedPrecondition(engine.status())) {
      EXPECT_THAT(engine.status().message(), ::testing::HasSubstr(GetParam()));
      GTEST_SKIP() << engine.status();
    }
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  std::unique_ptr<Engine> engine_;
  const std::vector<Round> rounds_ = {Round(1), Round(2), Round(3)};
};

TEST_P(EnginesTest, JudgesAsTheReferenceDoes) {
  auto reference = Engines().front().open(DemoOptions());
  ASSERT_TRUE(reference.ok()) << reference.status();
  EXPECT_EQ(engine_->info().model.vocabulary_size, (*reference)->info().model.vocabulary_size);
  EXPECT_GE(engine_->info().max_rows, 64);
  const std::vector<PartResult> expected = Judge(**reference, rounds_);
  const std::vector<PartResult> results = Judge(*engine_, rounds_);
  ASSERT_EQ(results.size(), rounds_.size());
  for (size_t i = 0; i < results.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_TRUE(results[i].status.ok()) << results[i].status;
    ASSERT_EQ(results[i].prompt_logprobs.size(), rounds_[i].targets.size());
    for (size_t j = 0; j < rounds_[i].targets.size(); ++j) {
      EXPECT_NEAR(*results[i].prompt_logprobs[j].candidate,
                  *expected[i].prompt_logprobs[j].candidate, kTolerance);
    }
    ASSERT_EQ(results[i].entries.size(), 3u);
    ASSERT_EQ(results[i].logprobs.size(), 3u);
    for (size_t j = 0; j < 3; ++j) {
      const auto& top = expected[i].logprobs[j].top;
      EXPECT_NEAR(results[i].logprobs[j].top[0].logprob, top[0].logprob, kTolerance);
      if (top[0].logprob - top[1].logprob < 2 * kTolerance) continue;  // rounding may exchange them
      EXPECT_EQ(results[i].entries[j].next_token, expected[i].entries[j].next_token);
      EXPECT_EQ(results[i].entries[j].accept_probability,
                expected[i].entries[j].accept_probability);
    }
  }
}

TEST_P(EnginesTest, WhatElseIsInAPassChangesNothing) {
  const std::vector<PartResult> together = Judge(*engine_, rounds_);
  for (size_t i = 0; i < rounds_.size(); ++i) {
    const std::vector<PartResult> alone = Judge(*engine_, {rounds_[i]});
    for (size_t j = 0; j < rounds_[i].targets.size(); ++j) {
      EXPECT_EQ(alone[0].prompt_logprobs[j].candidate, together[i].prompt_logprobs[j].candidate);
    }
    for (size_t j = 0; j < 3; ++j) {
      EXPECT_EQ(alone[0].entries[j].next_token, together[i].entries[j].next_token);
      EXPECT_EQ(alone[0].logprobs[j].top, together[i].logprobs[j].top);
    }
  }
}

TEST_P(EnginesTest, IsCheckedBeforeItsWeightsAreRead) {
  EngineOptions options = DemoOptions();
  EXPECT_TRUE(EngineNamed(GetParam()).check(options).ok());
  options.model.directory = testing::SourcePath("demo");
  EXPECT_FALSE(EngineNamed(GetParam()).check(options).ok());
}

TEST(EngineNamesTest, ACardMayHaveANumber) {
  EXPECT_THAT(EngineNames(), ::testing::ElementsAre("cpu", "torch-cpu", "cuda", "cuda:N"));
  EXPECT_EQ(EngineNamed("cuda:3").name, "cuda");
}

INSTANTIATE_TEST_SUITE_P(All, EnginesTest, ::testing::Values("cpu", "torch-cpu", "cuda"),
                         [](const auto& name) {
                           std::string text = name.param;
                           std::erase(text, '-');
                           return text;
                         });

}  // namespace
}  // namespace tandem::target_service
