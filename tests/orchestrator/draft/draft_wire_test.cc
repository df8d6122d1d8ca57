// What a draft is told of a sequence, and that it takes it.
#include "orchestrator/draft/draft_wire.h"

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/random/random.h"
#include "common/speculation/sequence_options.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/harness/loop_harness.h"

namespace tandem::orchestrator {
namespace {

using acceptance::Rule;

// As the loop opens it.
internal::v1::Open OpenOf(const GenerationRequest& request) {
  LoopHarness harness(request);
  harness.Start();
  return ToWire(base::SequenceId{7}, harness.draft.opened());
}

TEST(DraftWire, EveryRuleAtEveryTemperatureIsOneThatADraftTakes) {
  for (Rule rule :
       {Rule::kGreedy, Rule::kSpeculative, Rule::kBlock, Rule::kCoupled, Rule::kLenient}) {
    for (double temperature : {0.0, 0.7}) {
      // As request_validation.h lets them through.
      if ((rule == Rule::kGreedy) != (temperature == 0) && rule != Rule::kLenient) continue;
      for (std::optional<double> own : {std::optional<double>(), {0.0}, {0.5}}) {
        GenerationRequest request = SmallRequest(4, temperature);
        request.rule = rule;
        if (rule == Rule::kLenient) request.leniency = 0.5;
        request.draft_temperature = own;
        request.logprobs = sampling::LogprobOptions{3, false};
        const internal::v1::Open open = OpenOf(request);
        const auto checked = speculation::CheckSequenceOptions(open.options(), 4096, 8);
        ASSERT_TRUE(std::holds_alternative<speculation::SequenceSettings>(checked))
            << acceptance::Name(rule) << " "
            << std::get<messages::Refusal>(checked).problem.message();
        EXPECT_FALSE(open.options().has_logprobs()) << "never to a draft";
        const auto& settings = std::get<speculation::SequenceSettings>(checked);
        EXPECT_EQ(settings.sampling.temperature, static_cast<float>(own.value_or(temperature)));
        EXPECT_EQ(settings.seed,
                  rule == Rule::kCoupled ? request.seed : random::DeriveDraftSeed(request.seed));
      }
    }
  }
}

TEST(DraftWire, OptionsAndProposalTravel) {
  GenerationRequest request = SmallRequest(4, 0.5);
  request.sampling.min_p = 0.125;
  request.sampling.repetition_penalty = 1.5;
  request.sampling.frequency_penalty = -0.5;
  request.sampling.min_tokens = 3;
  request.sampling.stop_token_ids = {1, 2};
  request.sampling.bias = {{3, -2}};
  request.sampling.allowed = {1, 2, 3, 4};
  request.sample_index = 11;
  for (Proposal proposal : {Proposal::kDefault, Proposal::kSampled, Proposal::kGreedy}) {
    request.proposal = proposal;
    const internal::v1::Open open = OpenOf(request);
    EXPECT_EQ(open.proposal(), proposal == Proposal::kDefault   ? v1::PROPOSAL_UNSPECIFIED
                               : proposal == Proposal::kSampled ? v1::PROPOSAL_SAMPLED
                                                                : v1::PROPOSAL_GREEDY);
    const auto checked = speculation::CheckSequenceOptions(open.options(), 4096, 8);
    const auto* settings = std::get_if<speculation::SequenceSettings>(&checked);
    ASSERT_NE(settings, nullptr);
    EXPECT_EQ(settings->sampling, request.sampling);
    EXPECT_EQ(settings->sample_index, 11u);
    EXPECT_EQ(settings->prompt_tokens, request.prompt_tokens());
  }
}

// What is not a whole chain has a name, and what is not even a tree is told apart from it.
TEST(DraftWire, TheShapeOfABlockIsRead) {
  struct Case {
    std::vector<uint32_t> parents;
    bool is_chain, well_formed;
    std::string named;
  };
  const std::vector<Case> cases = {
      {{}, true, true, ""},
      {{0, 1, 2}, true, true, ""},
      {{0, 0, 1}, false, true, "a tree of 3 draft tokens"},
      {{0, 1, 0}, false, true, "a tree of 3 draft tokens"},
      {{0, 1}, false, false, "a tree"},
      {{0, 2, 1}, false, false, "a tree"},
      {{0, 1, 3}, false, false, "a tree"},
  };
  for (const Case& test : cases) {
    internal::v1::Block block;
    block.set_status(internal::v1::STATUS_OK);
    block.set_final(true);
    for (uint32_t token : {5, 6, 7}) block.add_tokens(token);
    for (uint32_t parent : test.parents) block.add_parents(parent);
    const DraftReplyBlock reply = FromWire(block);
    EXPECT_EQ(reply.is_whole_chain(), test.is_chain) << block.ShortDebugString();
    EXPECT_EQ(reply.block.has_valid_parents(), test.well_formed) << block.ShortDebugString();
    EXPECT_NE(reply.message.find(test.named), std::string::npos) << reply.message;
    EXPECT_EQ(reply.message.empty(), test.is_chain);
  }
  internal::v1::Block block;
  block.set_status(internal::v1::STATUS_OK);
  EXPECT_FALSE(FromWire(block).is_whole_chain());
  EXPECT_NE(FromWire(block).message.find("a part of a block"), std::string::npos);
  block.set_final(true);
  EXPECT_TRUE(FromWire(block).is_whole_chain());
  block.mutable_assumes();
  EXPECT_FALSE(FromWire(block).is_whole_chain());
  EXPECT_NE(FromWire(block).message.find("drafted in advance"), std::string::npos);
}

}  // namespace
}  // namespace tandem::orchestrator
