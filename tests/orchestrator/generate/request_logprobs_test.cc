// Log probabilities through a whole request: each committed token's own, however its round ended;
// none of what lies past the text's end; the prompt's once, however often it is sent.
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/sampling/logprobs.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/harness/loop_harness.h"

namespace tandem::orchestrator {
namespace {

using acceptance::Rule;
using TargetDo = FakeTarget::Do;

GenerationRequest Request(Rule rule, double temperature, bool processed = false) {
  GenerationRequest request = SmallRequest(4, temperature);
  request.rule = rule;
  if (rule == Rule::kLenient) request.leniency = 0.6;
  request.logprobs = sampling::LogprobOptions{3, processed};
  return request;
}

// What the target says of the tokens from `begin` to `end` of `context`, each after those before
// it.
std::vector<TokenLogprobs> Expected(const LoopHarness& harness, std::vector<uint32_t> context,
                                    size_t begin, size_t end) {
  speculation::SequenceSettings setup;
  setup.sampling = harness.request.sampling;
  setup.rule = harness.request.rule;
  setup.prompt_tokens = harness.request.prompt_tokens();
  setup.logprobs = harness.request.logprobs;
  std::vector<TokenLogprobs> expected;
  for (size_t at = begin; at < end; ++at) {
    sampling::NodeLogprobs node = LogprobsOf(
        harness.target_model, setup, absl::MakeConstSpan(context).subspan(0, at), context[at], {});
    expected.push_back({*node.candidate, node.top});
  }
  return expected;
}

std::vector<uint32_t> Join(std::vector<uint32_t> first, const std::vector<uint32_t>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

void ExpectSame(const std::vector<TokenLogprobs>& got, const std::vector<TokenLogprobs>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].logprob, expected[i].logprob) << i;
    EXPECT_EQ(got[i].top, expected[i].top) << i;
  }
}

void ExpectAligned(const LoopHarness& harness) {
  ASSERT_TRUE(harness.ending.has_value());
  EXPECT_TRUE(harness.ending->status.ok()) << harness.ending->status;
  EXPECT_EQ(harness.ending->output_tokens, harness.output().size());
  const std::vector<uint32_t> all = Join(harness.request.prompt, harness.output());
  ExpectSame(harness.reader.logprobs,
             Expected(harness, all, harness.request.prompt.size(), all.size()));
}

TEST(Logprobs, OfAcceptedReplacedAndBonusTokensAreThoseTokensOwn) {
  for (Rule rule :
       {Rule::kGreedy, Rule::kSpeculative, Rule::kBlock, Rule::kCoupled, Rule::kLenient}) {
    for (bool processed : {false, true}) {
      SCOPED_TRACE(acceptance::Name(rule));
      GenerationRequest request = Request(rule, rule == Rule::kGreedy ? 0 : 0.9, processed);
      request.max_tokens = 200;
      request.draft_tokens = 2;
      request.sampling.presence_penalty = 0.3;
      LoopHarness harness(request);
      harness.Start();
      harness.Run();
      ExpectAligned(harness);
      const AcceptanceCounts& counts = harness.ending->counts;
      EXPECT_GT(counts.rejected_rounds, 3u) << "some were replaced";
      ASSERT_GT(counts.accepted_histogram.size(), 2u);
      EXPECT_GT(counts.accepted_histogram[2], 3u) << "some were a bonus";
    }
  }
}

// The draft proposes what the target would say, so blocks stand whole, and the text ends inside
// them.
TEST(Logprobs, WhatLiesPastTheEndInsideAnAcceptedBlockIsNeitherReturnedNorCounted) {
  HarnessOptions options;
  options.draft_noise = 0;
  GenerationRequest plain = Request(Rule::kGreedy, 0);
  plain.draft_tokens = 7;
  LoopHarness whole(plain, options);
  whole.Start();
  whole.Run();
  ExpectAligned(whole);
  const std::vector<uint32_t> ids = whole.output();
  int inside = 0;
  const auto check = [&](const GenerationRequest& request, size_t length, Finish finish) {
    LoopHarness harness(request, options);
    harness.Start();
    harness.Run();
    ExpectAligned(harness);
    EXPECT_EQ(harness.output(), std::vector<uint32_t>(ids.begin(), ids.begin() + length));
    EXPECT_EQ(harness.ending->finish, finish);
    // A block that stood whole adds more than the text took.
    const AcceptanceCounts& counts = harness.ending->counts;
    inside += counts.accepted_tokens + counts.rounds > length ? 1 : 0;
  };
  for (uint32_t end = 0; end < 8; ++end) {
    GenerationRequest request = plain;
    request.sampling.stop_token_ids = {end};
    const auto first = std::find(ids.begin(), ids.end(), end);
    const bool ends = first != ids.end();
    check(request, ends ? first - ids.begin() + 1 : ids.size(),
          ends ? Finish::kStop : Finish::kLength);
  }
  for (size_t begin = 2; begin + 3 < ids.size(); begin += 3) {
    GenerationRequest request = plain;
    request.stop_strings = {whole.reader.text.substr(begin, 3)};
    const size_t first = whole.reader.text.find(request.stop_strings[0]);
    check(request, first + 3, Finish::kStop);
  }
  for (uint32_t max = 1; max < 20; ++max) {
    GenerationRequest request = plain;
    request.max_tokens = max;
    check(request, max, Finish::kLength);
  }
  EXPECT_GT(inside, 5);
}

TEST(Logprobs, AVerdictWithoutThoseThatWereAskedForIsTheTargetsFault) {
  using Spoil = std::function<void(VerifyReply&)>;
  const std::vector<Spoil> spoils = {
      [](VerifyReply& r) { r.logprobs.clear(); },
      [](VerifyReply& r) { r.logprobs.pop_back(); },
      [](VerifyReply& r) { r.logprobs.emplace_back(); },
      [](VerifyReply& r) { r.logprobs[0].candidate.reset(); },
      [](VerifyReply& r) { r.logprobs.back().candidate = -1; },
      [](VerifyReply& r) { r.logprobs.back().next_token.reset(); },
      [](VerifyReply& r) { r.logprobs[0].candidate = std::numeric_limits<float>::quiet_NaN(); },
      [](VerifyReply& r) { r.logprobs.back().next_token = 0.5f; },
      [](VerifyReply& r) { r.logprobs[0].top.resize(4); },
      [](VerifyReply& r) { r.logprobs[0].top[0].token = 8; },
  };
  for (size_t i = 0; i < spoils.size(); ++i) {
    SCOPED_TRACE(i);
    LoopHarness harness(Request(Rule::kGreedy, 0));
    int blocks = 0;
    harness.target.on_step = [&](const VerifyStep& step, VerifyReply& reply) {
      if (!step.block.tokens.empty() && ++blocks == 2) spoils[i](reply);
      return TargetDo::kAnswer;
    };
    harness.Start();
    harness.Run();
    ExpectAligned(harness);
    EXPECT_EQ(harness.output(), harness.PlainIds());
    EXPECT_EQ(harness.ending->counts.target_replays, 1u);
    EXPECT_EQ(harness.target.left, std::vector<LeaveCause>{LeaveCause::kFault});
  }
}

TEST(Logprobs, NoneAreSentWhereNoneAreWanted) {
  LoopHarness harness(SmallRequest());
  harness.Start();
  harness.Run();
  EXPECT_TRUE(harness.reader.logprobs.empty());
  EXPECT_TRUE(harness.reader.prompt.empty());
}

// ---- the prompt's ----

GenerationRequest WithPrompt(size_t tokens) {
  GenerationRequest request = Request(Rule::kGreedy, 0);
  request.prompt.clear();
  for (size_t i = 0; i < tokens; ++i) request.prompt.push_back(static_cast<uint32_t>(i * i) % 8);
  request.prompt_logprobs = true;
  return request;
}

// Each token but the first, once and in order.
void ExpectPrompt(const LoopHarness& harness) {
  std::vector<uint32_t> ids;
  std::vector<TokenLogprobs> logprobs;
  for (const PromptLogprobs& piece : harness.reader.prompt) {
    EXPECT_EQ(piece.first_position, ids.size() + 1);
    EXPECT_FALSE(piece.ids.empty());
    ids.insert(ids.end(), piece.ids.begin(), piece.ids.end());
    logprobs.insert(logprobs.end(), piece.logprobs.begin(), piece.logprobs.end());
  }
  const std::vector<uint32_t>& prompt = harness.request.prompt;
  EXPECT_EQ(ids, std::vector<uint32_t>(prompt.begin() + 1, prompt.end()));
  ExpectSame(logprobs, Expected(harness, prompt, 1, prompt.size()));
}

TEST(PromptLogprobs, ComeOnceWhateverTheStepsAre) {
  for (uint32_t step_tokens : {1u, 3u, 5u, 19u, 20u, 100u}) {
    for (size_t had : {0u, 4u}) {
      GenerationRequest request = WithPrompt(20);
      const std::vector<uint32_t> plain = LoopHarness(request).PlainIds();
      request.output_prefix.assign(plain.begin(), plain.begin() + had);
      HarnessOptions options;
      options.loop.max_prefix_tokens = step_tokens;
      LoopHarness harness(request, options);
      harness.Start();
      harness.Run();
      ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
      ExpectPrompt(harness);
      EXPECT_EQ(harness.output(), std::vector<uint32_t>(plain.begin() + had, plain.end()));
    }
  }
}

TEST(PromptLogprobs, AStepAsksForNoMoreThanAVerdictHolds) {
  LoopHarness harness(WithPrompt(2100));
  size_t max = 0;
  harness.target.on_step = [&](const VerifyStep& step, VerifyReply&) {
    if (step.prompt_logprobs) max = std::max(max, step.prefix.tokens.size());
    return TargetDo::kAnswer;
  };
  harness.Start();
  harness.Run();
  EXPECT_EQ(max, 1024u);
  ExpectPrompt(harness);
}

TEST(PromptLogprobs, OfOneTokenThereAreNone) {
  LoopHarness harness(WithPrompt(1));
  harness.Start();
  harness.Run();
  EXPECT_TRUE(harness.ending->status.ok());
  EXPECT_TRUE(harness.reader.prompt.empty());
}

// The stream breaks at each Step, and the prompt is sent again: what had come is not asked for
// again.
TEST(PromptLogprobs, AReplayAsksOnlyForWhatHasNotCome) {
  for (int broken = 1; broken <= 6; ++broken) {
    for (bool answered : {false, true}) {
      SCOPED_TRACE(broken);
      HarnessOptions options;
      options.loop.max_prefix_tokens = 6;
      LoopHarness harness(WithPrompt(20), options);
      uint32_t received = 1;  // positions, the first of which has none
      std::vector<std::vector<uint32_t>> asked;
      harness.target.on_step = [&](const VerifyStep& step, VerifyReply& reply) {
        const uint32_t end = step.prefix.keep + static_cast<uint32_t>(step.prefix.tokens.size());
        EXPECT_EQ(step.prompt_logprobs, received < std::min(end, 20u))
            << "at step " << harness.target.steps;
        const bool breaks = harness.target.steps == broken;
        if (breaks && answered) harness.target.Push(reply);
        if (breaks) harness.target.Disconnect();
        if (breaks) harness.target.Connect();
        if (!breaks || answered) received = std::max(received, end);
        return breaks ? TargetDo::kDrop : TargetDo::kAnswer;
      };
      harness.Start();
      harness.Run();
      ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
      EXPECT_EQ(harness.ending->counts.target_replays, 1u);
      ExpectPrompt(harness);
      EXPECT_EQ(harness.output(), harness.PlainIds());
    }
  }
}

TEST(PromptLogprobs, ATargetThatForgotPartOfThePromptIsAskedForNothingTwice) {
  HarnessOptions options;
  options.loop.max_prefix_tokens = 6;
  LoopHarness harness(WithPrompt(20), options);
  harness.target.on_step = [&](const VerifyStep& step, VerifyReply& reply) {
    if (harness.target.steps == 3) {
      EXPECT_EQ(step.prefix.keep, 12u);
      reply = {};
      reply.round = step.round;
      reply.status = VerifyReply::Status::kNeedPrefix;
      reply.held = 4;
    }
    return TargetDo::kAnswer;
  };
  harness.Start();
  harness.Run();
  ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
  ExpectPrompt(harness);
}

TEST(PromptLogprobs, BrokenOnesAreTheTargetsFault) {
  using Spoil = std::function<void(VerifyReply&)>;
  const std::vector<Spoil> spoils = {
      [](VerifyReply& r) { r.prompt_logprobs.clear(); },
      [](VerifyReply& r) { r.prompt_logprobs.pop_back(); },
      [](VerifyReply& r) { r.prompt_logprobs[0].candidate.reset(); },
      [](VerifyReply& r) { r.prompt_logprobs[1].candidate = 1; },
      [](VerifyReply& r) { r.prompt_logprobs[0].top.resize(4); },
  };
  for (size_t i = 0; i < spoils.size(); ++i) {
    SCOPED_TRACE(i);
    HarnessOptions options;
    options.loop.max_prefix_tokens = 6;
    LoopHarness harness(WithPrompt(20), options);
    harness.target.on_step = [&](const VerifyStep&, VerifyReply& reply) {
      if (harness.target.steps == 2) spoils[i](reply);
      return TargetDo::kAnswer;
    };
    harness.Start();
    harness.Run();
    ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
    EXPECT_EQ(harness.ending->counts.target_replays, 1u);
    ExpectPrompt(harness);
  }
}

}  // namespace
}  // namespace tandem::orchestrator
