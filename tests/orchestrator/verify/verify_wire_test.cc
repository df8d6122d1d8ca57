// Steps and verdicts as they travel: every option out, every log probability in.
#include "orchestrator/verify/verify_wire.h"

#include <variant>

#include "common/speculation/sequence_options.h"
#include "gtest/gtest.h"

namespace tandem::orchestrator {
namespace {

TEST(VerifyWire, TheSetupArrivesAsItWasSent) {
  speculation::SequenceSettings setup;
  setup.sampling.temperature = 0.5;
  setup.sampling.min_p = 0.125;
  setup.sampling.presence_penalty = 1.5;
  setup.sampling.min_tokens = 3;
  setup.sampling.stop_token_ids = {1, 2};
  setup.sampling.banned = {5};
  setup.rule = acceptance::Rule::kLenient;
  setup.leniency = 0.25;
  setup.seed = 77;
  setup.sample_index = 3;
  setup.prompt_tokens = 4;
  setup.max_length = 40;
  setup.priority = 2;
  setup.logprobs = sampling::LogprobOptions{5, true};
  const auto checked = speculation::CheckSequenceOptions(speculation::ToWire(setup), 100, 8);
  const auto* settings = std::get_if<speculation::SequenceSettings>(&checked);
  ASSERT_NE(settings, nullptr) << std::get<messages::Refusal>(checked).problem.message();
  EXPECT_EQ(settings->sampling, setup.sampling);
  EXPECT_EQ(settings->rule, setup.rule);
  EXPECT_EQ(settings->leniency, 0.25);
  EXPECT_EQ(settings->seed, 77u);
  EXPECT_EQ(settings->sample_index, 3u);
  EXPECT_EQ(settings->prompt_tokens, 4u);
  EXPECT_EQ(settings->max_length, 40u);
  EXPECT_EQ(settings->priority, 2u);
  EXPECT_EQ(settings->logprobs, setup.logprobs);
  setup.logprobs.reset();
  EXPECT_FALSE(speculation::ToWire(setup).has_logprobs());
}

TEST(VerifyWire, AStepAsksForThePromptsOnlyWhereTheyAreWanted) {
  VerifyStep step;
  EXPECT_FALSE(ToWire(base::SequenceId{1}, step).prompt_logprobs());
  step.prompt_logprobs = true;
  EXPECT_TRUE(ToWire(base::SequenceId{1}, step).prompt_logprobs());
}

TEST(VerifyWire, AChainedStepHasItsBlocksAndNothingElse) {
  VerifyStep step{.round = 5, .after = 4};
  step.chained = {{2, 7, {.id = base::BlockId{9}, .tokens = {1, 3}}}};
  const internal::v1::Step wire = ToWire(base::SequenceId{1}, step);
  internal::v1::Step expected;
  expected.set_sequence(1);
  expected.set_round(5);
  expected.set_after(4);
  internal::v1::PreparedBlock& block = *expected.add_prepared();
  block.set_node(2);
  block.set_next_token(7);
  block.add_candidates(1);
  block.add_candidates(3);
  EXPECT_EQ(wire.SerializeAsString(), expected.SerializeAsString());
}

TEST(VerifyWire, LogProbabilitiesComeWithTheirEntries) {
  internal::v1::Verdict verdict;
  verdict.set_status(internal::v1::STATUS_OK);
  internal::v1::Entry& root = *verdict.add_entries();
  root.set_next_token(4);
  root.mutable_logprobs()->set_candidate(-1);
  root.mutable_logprobs()->set_next_token(-2);
  root.mutable_logprobs()->mutable_top()->add_tokens()->set_token(6);
  internal::v1::Entry& last = *verdict.add_entries();
  last.set_next_token(5);
  last.mutable_logprobs()->set_next_token(-3);
  verdict.add_prompt_logprobs()->set_candidate(-4);

  VerifyReply reply = FromWire(verdict);
  ASSERT_EQ(reply.logprobs.size(), 2u);
  EXPECT_EQ(reply.logprobs[0].candidate, -1);
  EXPECT_EQ(reply.logprobs[0].next_token, -2);
  ASSERT_EQ(reply.logprobs[0].top.size(), 1u);
  EXPECT_EQ(reply.logprobs[0].top[0].token, 6u);
  EXPECT_FALSE(reply.logprobs[1].candidate.has_value());
  EXPECT_EQ(reply.logprobs[1].next_token, -3);
  ASSERT_EQ(reply.prompt_logprobs.size(), 1u);
  EXPECT_EQ(reply.prompt_logprobs[0].candidate, -4);

  verdict.mutable_entries(0)->clear_logprobs();
  reply = FromWire(verdict);
  ASSERT_EQ(reply.logprobs.size(), 2u) << "still the second entry's";
  EXPECT_FALSE(reply.logprobs[0].next_token.has_value());
  verdict.mutable_entries(1)->clear_logprobs();
  EXPECT_TRUE(FromWire(verdict).logprobs.empty());
}

}  // namespace
}  // namespace tandem::orchestrator
