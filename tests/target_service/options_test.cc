// Options that look back act on each row of a block as they would without a draft, and a block that
// was judged leaves no trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/target_service/every_option.h"

namespace tandem::target_service::options_test {
namespace {

const std::vector<uint32_t> kPrompt = {1, 2, 3, 4, 5};

// The p that the judge was given, row by row.
struct Judged {
  std::vector<sampling::Distribution> p;

  CpuEngineOptions MakeOptions() {
    CpuEngineOptions options;
    options.judge = [this](const acceptance::JudgeInput& input) {
      p.assign(input.p.begin(), input.p.end());
      return acceptance::Judge(input);
    };
    return options;
  }
};

std::vector<uint32_t> Joined(std::vector<uint32_t> context, const std::vector<uint32_t>& more,
                             size_t count) {
  context.insert(context.end(), more.begin(), more.begin() + static_cast<std::ptrdiff_t>(count));
  return context;
}

bool Same(const sampling::Distribution& a, const sampling::Distribution& b) {
  return a.ids == b.ids && a.probabilities == b.probabilities;
}

TEST(TargetOptions, CandidatesCountForTheRowsAfterThem) {
  Judged judged;
  Harness target({}, {}, judged.MakeOptions());
  auto stream = target.Connect();
  const std::vector<uint32_t> candidates = {3, 3, 6, 3, 6};
  internal::v1::SequenceOptions options = EveryOption(EveryRule()[1], 5);
  options.mutable_sampling()->clear_top_k();  // so that no count is hidden by a cut
  options.mutable_sampling()->clear_top_p();
  ASSERT_EQ(target.Ask(stream, FirstStep(1, kPrompt, candidates, options)).status(),
            internal::v1::STATUS_OK);
  ASSERT_EQ(judged.p.size(), 6u);
  int differ = 0;
  sampling::TokenHistory committed_only(5);
  committed_only.Append(kPrompt);
  for (size_t i = 0; i < judged.p.size(); ++i) {
    const std::vector<uint32_t> context = Joined(kPrompt, candidates, i);
    EXPECT_TRUE(Same(judged.p[i], target.P(options, context))) << "row " << i;
    // A history that forgets the draft tokens gives another p from the first of them on.
    const sampling::Distribution wrong = sampling::MakeDistribution(
        target.LogitsAfter(context), 8, target.SettingsOf(options).sampling, committed_only);
    if (!Same(judged.p[i], wrong)) ++differ;
  }
  EXPECT_EQ(differ, 5);
}

TEST(TargetOptions, ARejectedCandidateLeavesNoCount) {
  Judged judged;
  Harness target({}, {}, judged.MakeOptions());
  auto stream = target.Connect();
  internal::v1::SequenceOptions options = EveryOption(EveryRule()[1], 5);
  target.Ask(stream, FirstStep(1, kPrompt, {3, 3, 3, 3}, options));
  std::vector<uint32_t> committed = kPrompt;
  for (uint32_t token : {3u, 6u}) committed.push_back(token);  // one stands, then another
  target.Ask(stream, MakeStep(1, 2, committed, 5));
  ASSERT_EQ(judged.p.size(), 1u);
  EXPECT_TRUE(Same(judged.p[0], target.P(options, committed)));
  sampling::TokenHistory too_much(5);
  too_much.Append(kPrompt);
  too_much.Append({3, 3, 3, 3, 6});
  EXPECT_FALSE(
      Same(judged.p[0], sampling::MakeDistribution(target.LogitsAfter(committed), 8,
                                                   target.SettingsOf(options).sampling, too_much)))
      << "counts that were not taken back would show";
}

TEST(TargetOptions, MinimumTokensEndInTheMiddleOfABlock) {
  Judged judged;
  Harness target({}, {}, judged.MakeOptions());
  auto stream = target.Connect();
  internal::v1::SequenceOptions options = SampledOptions();
  options.set_prompt_tokens(5);
  options.mutable_sampling()->set_min_tokens(3);
  options.add_stop_token_ids(2);
  options.add_stop_token_ids(6);
  std::vector<uint32_t> committed = Joined(kPrompt, {1}, 1);
  const internal::v1::Verdict verdict =
      target.Ask(stream, FirstStep(1, committed, {1, 2, 4000000000u, 1}, options));
  EXPECT_EQ(verdict.entries(2).accept_probability(), 0) << "it would end the text too early";
  ASSERT_EQ(judged.p.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    for (uint32_t end : {2u, 6u}) EXPECT_EQ(judged.p[i](end) > 0, i >= 2) << "row " << i;
  }
  // A replay counts what was there before.
  for (uint32_t token : {1u, 3u}) {
    committed.push_back(token);
    target.Ask(stream, FirstStep(1, committed, {}, options));
    EXPECT_EQ(judged.p[0](2) > 0, committed.size() == 8) << committed.size();
  }
}

TEST(TargetOptions, AnUnknownCandidateIsHarmless) {
  CpuEngineOptions engine;
  engine.vocabulary_size = 7;  // the model's embedding is padded to 8
  for (const RuleCase& rule : EveryRule()) {
    Harness target({}, {}, engine);
    auto stream = target.Connect();
    internal::v1::SequenceOptions options = EveryOption(rule, 5);
    options.mutable_sampling()->set_banned_token_ids(0, 4);
    const internal::v1::Verdict verdict =
        target.Ask(stream, FirstStep(1, kPrompt, {7, 4294967295u, 4, 1, 7}, options));
    ASSERT_EQ(verdict.status(), internal::v1::STATUS_OK) << rule.name;
    for (int i : {1, 2, 3, 5}) EXPECT_EQ(verdict.entries(i).accept_probability(), 0) << rule.name;
    for (const internal::v1::Entry& entry : verdict.entries()) EXPECT_LT(entry.next_token(), 7u);
    const internal::v1::Verdict next =
        target.Ask(stream, MakeStep(1, 2, Joined(kPrompt, {0, 0}, 2), 5));
    Harness fresh({}, {}, engine);
    auto other = fresh.Connect();
    internal::v1::Step replay = FirstStep(1, Joined(kPrompt, {0, 0}, 2), {}, options);
    replay.set_round(2);
    EXPECT_EQ(WhatItSays(next), WhatItSays(fresh.Ask(other, replay))) << rule.name;
  }
}

// Some rounds of a text: what a Step is like is up to chance, what it must answer is not.
TEST(TargetOptions, EveryRoundEqualsTheDirectComputation) {
  for (const RuleCase& rule : EveryRule()) {
    std::mt19937 random(3);
    auto pick = [&random](uint32_t below) { return static_cast<uint32_t>(random() % below); };
    Harness target;
    auto stream = target.Connect();
    const internal::v1::SequenceOptions options = EveryOption(rule, 5);
    const acceptance::Rule judged = target.SettingsOf(options).rule;
    std::vector<uint32_t> committed = kPrompt;
    uint32_t keep = 0;
    uint32_t accepted = 0;
    for (uint64_t round = 1; round <= 60; ++round) {
      std::vector<uint32_t> candidates(pick(6));
      std::vector<uint32_t> path = committed;
      for (uint32_t& candidate : candidates) {
        candidate =
            pick(3) > 0 ? sampling::ArgMax(target.LogitsAfter(path), 8) : pick(9);  // 8 is not a
                                                                                    // token
        path.push_back(candidate);
      }
      internal::v1::Step step = MakeStep(1, round, committed, keep, candidates);
      if (keep == 0) *step.mutable_options() = options;
      const internal::v1::Verdict verdict = target.Ask(stream, step);
      ASSERT_EQ(verdict.status(), internal::v1::STATUS_OK)
          << rule.name << verdict.ShortDebugString();
      ASSERT_TRUE(SameEntries(verdict, target.Expected(options, committed, candidates)))
          << rule.name << ", round " << round << ": " << verdict.ShortDebugString();
      const acceptance::Decision decision =
          DecideOf(options, verdict, static_cast<uint32_t>(committed.size()), judged);
      accepted += decision.accepted;
      // What stands may be told by number, by id, or all of it again.
      const uint32_t before = static_cast<uint32_t>(committed.size());
      committed = Joined(committed, candidates, decision.accepted);
      committed.push_back(decision.next_token);
      keep = pick(8) == 0 ? 0 : before + pick(decision.accepted + 1);
      if (pick(10) == 0) {  // and some of it may be dropped again
        committed.resize(5 + pick(static_cast<uint32_t>(committed.size()) - 4));
        keep = std::min(keep, static_cast<uint32_t>(committed.size()));
      }
    }
    EXPECT_GT(accepted, 5u) << rule.name;
  }
}

TEST(TargetOptions, AReplayGivesTheSameEntriesUnderEveryRule) {
  for (const RuleCase& rule : EveryRule()) {
    Harness target;
    auto stream = target.Connect();
    const internal::v1::SequenceOptions options = EveryOption(rule, 5);
    std::vector<uint32_t> committed = kPrompt;
    target.Ask(stream, FirstStep(1, committed, {1, 3}, options));
    committed = Joined(committed, {1, 6, 6}, 3);
    target.Ask(stream, MakeStep(1, 2, committed, 5, {{0, 0, 1}}));
    committed = Joined(committed, {0, 5}, 2);
    const std::vector<uint32_t> candidates = {5, 0, 1, 3};
    internal::v1::Step step = MakeStep(1, 3, committed, 8, candidates);
    const std::string first = WhatItSays(target.Ask(stream, step));
    internal::v1::Step replay = MakeStep(1, 3, committed, 0, candidates);
    *replay.mutable_options() = options;
    EXPECT_EQ(WhatItSays(target.Ask(stream, replay)), first) << rule.name << ", what it held";
    replay.set_sequence(2);
    EXPECT_EQ(WhatItSays(target.Ask(stream, replay)), first) << rule.name << ", another sequence";
    Harness elsewhere;
    auto other = elsewhere.Connect();
    EXPECT_EQ(WhatItSays(elsewhere.Ask(other, replay)), first) << rule.name << ", elsewhere";
  }
}

TEST(TargetOptions, AReplayMayBringOtherOptions) {
  Harness target;
  auto stream = target.Connect();
  const std::vector<internal::v1::SequenceOptions> all = {
      EveryOption(EveryRule()[1], 5), SampledOptions(5), EveryOption(EveryRule()[1], 2),
      EveryOption(EveryRule()[0], 5), OptionsOf(EveryRule()[3])};
  std::vector<uint32_t> committed = kPrompt;
  for (const internal::v1::SequenceOptions& options : all) {
    const std::vector<uint32_t> candidates = {3, 3, 1};
    const internal::v1::Verdict verdict =
        target.Ask(stream, FirstStep(1, committed, candidates, options));
    EXPECT_TRUE(SameEntries(verdict, target.Expected(options, committed, candidates)));
    committed = Joined(committed, {3, 1}, 2);
    const uint32_t keep = static_cast<uint32_t>(committed.size()) - 1;  // told by number
    EXPECT_TRUE(SameEntries(target.Ask(stream, MakeStep(1, 2, committed, keep)),
                            target.Expected(options, committed, {})));
  }
}

// A Step that is given up before its pass, or in the middle of its prompt, leaves the history in
// order.
TEST(TargetOptions, AGivenUpStepLeavesTheHistoryInOrder) {
  Options service;
  service.pass_rows = 8;
  service.prefill_rows = 8;
  Harness target(service, {.max_rows = 24});
  auto stream = target.Connect();
  const internal::v1::SequenceOptions options = EveryOption(EveryRule()[1], 5);
  target.Ask(stream, FirstStep(1, kPrompt, {3, 3}, options));
  std::vector<uint32_t> committed = Joined(kPrompt, {3, 6}, 2);
  internal::v1::Step late = MakeStep(1, 2, committed, 5, {{1, 1}});
  late.set_remaining_us(10);
  // Behind another one's long prompt it waits until its time is over.
  Harness::Send(stream, {FirstStep(2, std::vector<uint32_t>(60, 1))});
  target.device->RunOnce();
  Harness::Send(stream, {late});
  target.clock.Advance(absl::Milliseconds(1));
  target.RunAll();
  std::vector<internal::v1::Verdict> verdicts = stream.sink->Take();
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].status(), internal::v1::STATUS_EXPIRED);
  committed = Joined(kPrompt, {3, 1}, 2);
  EXPECT_TRUE(SameEntries(target.Ask(stream, MakeStep(1, 3, committed, 5, {{6, 6}})),
                          target.Expected(options, committed, {6, 6})));
}

// Beside others, and in pieces, a verdict is what it is alone, to the bit.
TEST(TargetOptions, InABatchEqualsItselfAlone) {
  std::vector<internal::v1::Step> steps;
  for (const RuleCase& rule : EveryRule()) {
    for (uint64_t i = 0; i < 3; ++i) {
      internal::v1::SequenceOptions options = EveryOption(rule, 20, 7 * i);
      if (i == 1) options.mutable_logprobs()->set_top(5);
      if (i == 2) options = OptionsOf(rule);
      std::vector<uint32_t> prompt(20 + 11 * i);
      for (size_t t = 0; t < prompt.size(); ++t) prompt[t] = static_cast<uint32_t>((t * i + t) % 7);
      internal::v1::Step step = FirstStep(steps.size(), prompt, {3, 3, 1, 0}, options);
      step.set_prompt_logprobs(i == 1);
      steps.push_back(step);
    }
  }
  Options service;
  service.prefill_rows = 9;
  Harness crowd(service, {.max_rows = 70});
  auto stream = crowd.Connect();
  Harness::Send(stream, steps);
  crowd.RunAll();
  const std::vector<internal::v1::Verdict> verdicts = stream.sink->Take();
  ASSERT_EQ(verdicts.size(), steps.size());
  uint32_t max_sequences = 0;
  for (const internal::v1::Verdict& verdict : verdicts) {
    ASSERT_EQ(verdict.status(), internal::v1::STATUS_OK) << verdict.ShortDebugString();
    max_sequences = std::max(max_sequences, verdict.pass_sequences());
    Harness alone;
    auto other = alone.Connect();
    const internal::v1::Step& step = steps[verdict.sequence()];
    EXPECT_EQ(WhatItSays(verdict), WhatItSays(alone.Ask(other, step))) << step.ShortDebugString();
  }
  EXPECT_GT(max_sequences, 2u) << "they did share passes";
}

}  // namespace
}  // namespace tandem::target_service::options_test
