// The five rules through a whole request: what target and draft are told, what is decided, and when
// the text is the target's own.
#include <string>
#include <vector>

#include "common/random/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/harness/loop_harness.h"

namespace tandem::orchestrator::request_rules_test {
namespace {

using acceptance::Rule;
using ::testing::Each;

GenerationRequest Request(Rule rule, double temperature, uint32_t draft_tokens = 4) {
  GenerationRequest request = SmallRequest(draft_tokens, temperature);
  request.rule = rule;
  if (rule == Rule::kLenient) request.leniency = 0.5;
  return request;
}

// All that looks back.
GenerationRequest WithOptions(Rule rule, double temperature) {
  GenerationRequest request = Request(rule, temperature);
  request.sampling.repetition_penalty = 1.3;
  request.sampling.presence_penalty = 0.5;
  request.sampling.frequency_penalty = 0.2;
  request.sampling.min_tokens = 20;
  request.sampling.stop_token_ids = {3};
  request.sampling.min_p = 0.02;
  request.sampling.banned = {6};
  request.sampling.bias = {{2, 1.5}};
  return request;
}

// ---- coupled: the text is the seed's, whatever the draft does ----

TEST(CoupledRule, TheTextIsThatOfTheTargetAlone) {
  for (double noise : {0.0, 0.5, 5.0}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      for (bool options_on : {false, true}) {
        GenerationRequest request =
            options_on ? WithOptions(Rule::kCoupled, 1) : Request(Rule::kCoupled, 1);
        request.seed = seed;
        HarnessOptions options;
        options.draft_noise = noise;
        LoopHarness harness(request, options);
        harness.Start();
        harness.Run();
        ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
        EXPECT_EQ(harness.output(), harness.PlainIds());
        if (noise == 0.0) {
          EXPECT_EQ(harness.ending->counts.rejected_rounds, 0u) << "the same noise, the same draws";
        }
      }
    }
  }
}

// Another orchestrator goes on where the first one was lost: the same ids, stop strings and log
// probabilities follow.
TEST(Resume, GivesTheRestOfTheSameTextUnderEveryOption) {
  for (Rule rule : {Rule::kGreedy, Rule::kCoupled}) {
    for (uint32_t stop_at : {0u, 6u, 18u, 30u}) {
      GenerationRequest request = WithOptions(rule, rule == Rule::kGreedy ? 0 : 1);
      request.sampling.stop_token_ids = {};
      request.max_tokens = 50;
      request.logprobs = sampling::LogprobOptions{2, true};
      LoopHarness free(request);
      free.Start();
      free.Run();
      // One in the first min_tokens does not count, but where it comes again.
      if (stop_at > 0) request.stop_strings = {free.reader.text.substr(stop_at, 3)};
      LoopHarness whole(request);
      whole.Start();
      whole.Run();
      ASSERT_TRUE(whole.ending->status.ok()) << whole.ending->status;
      const std::vector<uint32_t> ids = whole.output();
      ASSERT_GT(ids.size(), 20u);
      for (size_t had = 1; had < ids.size(); ++had) {
        SCOPED_TRACE(had);
        GenerationRequest rest = request;
        rest.output_prefix.assign(ids.begin(), ids.begin() + had);
        LoopHarness harness(rest);
        harness.Start();
        harness.Run();
        ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
        EXPECT_EQ(harness.output(), std::vector<uint32_t>(ids.begin() + had, ids.end()));
        EXPECT_EQ(harness.ending->stop_string, whole.ending->stop_string);
        EXPECT_EQ(harness.ending->finish, whole.ending->finish);
        EXPECT_EQ(harness.ending->output_tokens, ids.size());
        ASSERT_EQ(harness.reader.logprobs.size(), ids.size() - had);
        for (size_t i = 0; i < harness.reader.logprobs.size(); ++i) {
          EXPECT_EQ(harness.reader.logprobs[i].logprob, whole.reader.logprobs[had + i].logprob);
          EXPECT_EQ(harness.reader.logprobs[i].top, whole.reader.logprobs[had + i].top);
        }
      }
    }
  }
}

TEST(MinimumTokens, NoEndTokenComesBeforeThem) {
  for (Rule rule :
       {Rule::kGreedy, Rule::kSpeculative, Rule::kBlock, Rule::kCoupled, Rule::kLenient}) {
    for (uint32_t minimum : {0u, 1u, 7u, 32u}) {
      GenerationRequest request = Request(rule, rule == Rule::kGreedy ? 0 : 1);
      request.sampling.stop_token_ids = {1, 2, 3};
      request.sampling.min_tokens = minimum;
      LoopHarness harness(request);
      harness.Start();
      harness.Run();
      ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
      EXPECT_GE(harness.output().size(), minimum);
      for (size_t i = 0; i < minimum; ++i) {
        EXPECT_TRUE(harness.output()[i] < 1 || harness.output()[i] > 3) << i;
      }
    }
  }
}

// ---- what the services are told ----

speculation::SequenceSettings SetupOf(const GenerationRequest& request) {
  LoopHarness harness(request);
  std::optional<speculation::SequenceSettings> setup;
  harness.target.on_step = [&](const VerifyStep& step, VerifyReply&) {
    if (step.setup.has_value()) setup = step.setup;
    return FakeTarget::Do::kAnswer;
  };
  harness.Start();
  harness.Run();
  return *setup;
}

DraftOpen OpenOf(const GenerationRequest& request) {
  LoopHarness harness(request);
  harness.Start();
  return harness.draft.opened();
}

TEST(Setup, TheTargetGetsTheRequestAsItIs) {
  GenerationRequest request = WithOptions(Rule::kLenient, 0.7);
  request.sample_index = 9;
  request.priority = 4;
  request.logprobs = sampling::LogprobOptions{5, true};
  request.draft_temperature = 0.2;
  const speculation::SequenceSettings setup = SetupOf(request);
  EXPECT_EQ(setup.sampling, request.sampling);
  EXPECT_EQ(setup.rule, Rule::kLenient);
  EXPECT_EQ(setup.leniency, 0.5);
  EXPECT_EQ(setup.seed, request.seed);
  EXPECT_EQ(setup.sample_index, 9u);
  EXPECT_EQ(setup.prompt_tokens, request.prompt_tokens());
  EXPECT_EQ(setup.max_length, request.max_length());
  EXPECT_EQ(setup.priority, 4u);
  EXPECT_EQ(setup.logprobs, request.logprobs);
}

TEST(Setup, TheDraftGetsTheSameOptionsAtItsOwnTemperature) {
  GenerationRequest request = WithOptions(Rule::kBlock, 0.7);
  request.sample_index = 9;
  request.drafter = "model";
  request.proposal = Proposal::kSampled;
  DraftOpen open = OpenOf(request);
  EXPECT_EQ(open.settings.sampling, request.sampling);
  EXPECT_EQ(open.settings.rule, Rule::kBlock);
  EXPECT_EQ(open.proposal, Proposal::kSampled);
  EXPECT_EQ(open.drafter, "model");
  EXPECT_EQ(open.settings.sample_index, 9u);
  EXPECT_FALSE(open.settings.leniency.has_value());
  request.draft_temperature = 0.2;
  open = OpenOf(request);
  EXPECT_EQ(open.settings.sampling.temperature, 0.2);
  open.settings.sampling.temperature = 0.7;
  EXPECT_EQ(open.settings.sampling, request.sampling) << "and nothing else of it";
}

// A draft that knew the request's seed could shift the text towards what it proposes. Every opening
// counts: a draft that is lost in the middle is opened anew, with the same seed.
TEST(Setup, OnlyUnderCoupledTheDraftGetsTheRequestsSeed) {
  for (Rule rule :
       {Rule::kGreedy, Rule::kSpeculative, Rule::kBlock, Rule::kCoupled, Rule::kLenient}) {
    SCOPED_TRACE(acceptance::Name(rule));
    for (uint64_t seed : {uint64_t{0}, uint64_t{42}, ~uint64_t{0}}) {
      GenerationRequest request = Request(rule, rule == Rule::kGreedy ? 0 : 1);
      request.seed = seed;
      LoopHarness harness(request);
      harness.draft.others = 1;
      std::vector<uint64_t> seeds;
      harness.draft.on_advance = [&](const DraftAdvance&, DraftReplyBlock&) {
        seeds.push_back(harness.draft.opened().settings.seed);
        if (harness.draft.advances != 2) return FakeDraft::Do::kAnswer;
        harness.draft.Break();
        return FakeDraft::Do::kDrop;
      };
      harness.Start();
      harness.Run();
      ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
      EXPECT_EQ(harness.draft.opens, 2);
      EXPECT_GT(harness.draft.submitted, 0);
      ASSERT_GT(seeds.size(), 2u);
      const uint64_t derived = random::DeriveDraftSeed(seed);
      ASSERT_NE(derived, seed);
      EXPECT_THAT(seeds, Each(rule == Rule::kCoupled ? seed : derived));
      EXPECT_EQ(harness.draft.opened().settings.leniency.has_value(), rule == Rule::kLenient);
    }
  }
}

// A draft takes rule greedy at temperature 0 only.
TEST(Setup, ADraftWithATemperatureOfItsOwnSamplesForAGreedyRequestToo) {
  GenerationRequest request = Request(Rule::kGreedy, 0);
  EXPECT_EQ(OpenOf(request).settings.rule, Rule::kGreedy);
  request.draft_temperature = 0.8;
  EXPECT_EQ(OpenOf(request).settings.rule, Rule::kSpeculative);
  LoopHarness harness(request);
  harness.Start();
  harness.Run();
  EXPECT_EQ(harness.output(), harness.PlainIds()) << "whatever it proposes";
}

}  // namespace
}  // namespace tandem::orchestrator::request_rules_test
