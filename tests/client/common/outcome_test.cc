#include "client/common/outcome.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/example_outcome.h"

namespace tandem::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(OutcomeTest, AlphaHatCountsOnlyCandidatesThatWereLookedAt) {
  EXPECT_DOUBLE_EQ(AlphaHat(Example().last.speculation()), 0.75);
  EXPECT_EQ(AlphaHat(v1::AcceptanceRecord()), 0);
}

TEST(OutcomeTest, RatesOfAWholeRequest) {
  EXPECT_DOUBLE_EQ(TokensPerPass(Example().last), 2.5);
  EXPECT_DOUBLE_EQ(MillisecondsPerToken(Example().last), 1.0);
  EXPECT_EQ(TokensPerPass(v1::Last()), 0);
  EXPECT_EQ(MillisecondsPerToken(v1::Last()), 0);
  EXPECT_EQ(MeanBatch(v1::AcceptanceRecord()), 0);
}

v1::GenerateReply DeltaOf(uint32_t sample, std::vector<uint32_t> ids, std::string text) {
  v1::GenerateReply reply;
  v1::Delta& delta = *reply.mutable_delta();
  delta.set_sample_index(sample);
  delta.set_text(std::move(text));
  for (uint32_t id : ids) {
    delta.add_token_ids(id);
    delta.add_logprobs(-static_cast<float>(id));
    delta.add_top_logprobs();
  }
  return reply;
}

v1::GenerateReply PromptOf(uint32_t first, std::vector<uint32_t> ids) {
  v1::GenerateReply reply;
  v1::PromptLogprobs& prompt = *reply.mutable_prompt_logprobs();
  prompt.set_first_position(first);
  for (uint32_t id : ids) {
    prompt.add_token_ids(id);
    prompt.add_logprobs(-1);
  }
  return reply;
}

TEST(OutcomeTest, TextRunsCoverTheText) {
  v1::GenerateReply reply = DeltaOf(0, {4}, "ab");
  v1::TextRun& run = *reply.mutable_delta()->add_text_runs();
  for (uint32_t bytes : {1u, 2u, 3u}) {
    run.set_bytes(bytes);
    Outcome outcome;
    EXPECT_EQ(Collect(reply, 1, outcome).ok(), bytes == 2) << bytes;
  }
}

TEST(OutcomeTest, DeltasGoToTheirSamples) {
  Outcome outcome;
  ASSERT_TRUE(Collect(DeltaOf(1, {4}, "b"), 2, outcome).ok());
  ASSERT_TRUE(Collect(DeltaOf(0, {5, 6}, "a"), 2, outcome).ok());
  ASSERT_TRUE(Collect(DeltaOf(1, {}, "B"), 2, outcome).ok());
  EXPECT_THAT(outcome.samples[0].token_ids, ElementsAre(5, 6));
  EXPECT_THAT(outcome.samples[0].logprobs, ElementsAre(-5, -6));
  EXPECT_EQ(outcome.samples[1].text, "bB");
  EXPECT_EQ(outcome.samples[1].top_logprobs.size(), 1u);
}

TEST(OutcomeTest, WhatMakesNoSenseIsAnError) {
  Outcome outcome;
  auto message = [&](const v1::GenerateReply& reply) {
    return std::string(Collect(reply, 2, outcome).message());
  };
  EXPECT_THAT(message(DeltaOf(2, {4}, "")), HasSubstr("sample 2; there are 2"));
  EXPECT_THAT(message(DeltaOf(UINT32_MAX, {4}, "")), HasSubstr("there are 2"));
  v1::GenerateReply reply = DeltaOf(0, {4}, "");
  reply.mutable_delta()->add_logprobs(0);
  EXPECT_THAT(message(reply), HasSubstr("fit no tokens"));
  reply = DeltaOf(0, {4}, "");
  for (int i = 0; i < 2; ++i) reply.mutable_delta()->add_token_bytes("a");
  EXPECT_THAT(message(reply), HasSubstr("bytes that fit no tokens"));
  reply = PromptOf(1, {3});
  reply.mutable_prompt_logprobs()->clear_logprobs();
  EXPECT_THAT(message(reply), HasSubstr("fit no prompt tokens"));
  reply = PromptOf(1, {3, 4});
  reply.mutable_prompt_logprobs()->add_token_bytes("a");
  EXPECT_THAT(message(reply), HasSubstr("fit no prompt tokens"));
}

TEST(OutcomeTest, PromptLogprobsComeInParts) {
  Outcome outcome;
  ASSERT_TRUE(Collect(PromptOf(1, {7, 8}), 1, outcome).ok());
  ASSERT_TRUE(Collect(PromptOf(3, {9}), 1, outcome).ok());
  EXPECT_EQ(outcome.prompt.first_position(), 1u);
  EXPECT_THAT(outcome.prompt.token_ids(), ElementsAre(7, 8, 9));
  EXPECT_THAT(std::string(Collect(PromptOf(5, {9}), 1, outcome).message()),
              HasSubstr("position 5"));
}

TEST(OutcomeTest, SamplesWithoutTextAreThere) {
  Outcome outcome;
  EXPECT_EQ(outcome.samples.size(), 1u);
  EXPECT_FALSE(outcome.has_started());
  v1::GenerateReply reply;
  reply.mutable_started()->set_rule(v1::RULE_BLOCK);
  ASSERT_TRUE(Collect(reply, 3, outcome).ok());
  EXPECT_TRUE(outcome.has_started());
  EXPECT_EQ(outcome.samples.size(), 3u);
}

TEST(OutcomeTest, EndsAreFoundByTheirIndex) {
  const Outcome two = TwoSamples();
  EXPECT_EQ(two.End(1).stop_string(), "!");
  EXPECT_EQ(two.End(2).finish_reason(), v1::FINISH_REASON_UNSPECIFIED);
  // A reply that names no samples is of one.
  EXPECT_EQ(Example().End(0).finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(Example().End(0).completion_tokens(), 10u);
}

}  // namespace
}  // namespace tandem::client
