// The log probabilities of a prompt's tokens: those of one-token decoding, however the prompt
// comes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "common/messages/limits.h"
#include "target_service/engine/judging.h"
#include "tests/target_service/every_option.h"

namespace tandem::target_service {
namespace {

std::vector<uint32_t> Text(size_t size) {
  std::vector<uint32_t> tokens(size);
  for (size_t i = 0; i < size; ++i) tokens[i] = static_cast<uint32_t>((i * i + i / 3) % 7);
  return tokens;
}

internal::v1::SequenceOptions Asking(const internal::v1::SequenceOptions& base, uint32_t top,
                                     bool processed) {
  internal::v1::SequenceOptions options = base;
  options.mutable_logprobs()->set_top(top);
  options.mutable_logprobs()->set_processed(processed);
  return options;
}

internal::v1::Step Wanting(internal::v1::Step step) {
  step.set_prompt_logprobs(true);
  return step;
}

// Of tokens[from] … tokens[to - 1] but for position 0, computed one by one without any service.
void ExpectPromptLogprobs(const Harness& target, const internal::v1::SequenceOptions& options,
                          const std::vector<uint32_t>& tokens, size_t from, size_t to,
                          const internal::v1::Verdict& verdict) {
  const size_t first = std::max<size_t>(from, 1);
  ASSERT_EQ(static_cast<size_t>(verdict.prompt_logprobs_size()), to > first ? to - first : 0);
  for (size_t at = first; at < to; ++at) {
    const std::vector<uint32_t> context(tokens.begin(),
                                        tokens.begin() + static_cast<std::ptrdiff_t>(at));
    const internal::v1::NodeLogprobs& told = verdict.prompt_logprobs(static_cast<int>(at - first));
    const std::vector<float> logits = target.LogitsAfter(context);
    const sampling::Distribution p = target.P(options, context);
    const auto expected = options.logprobs().processed() ? sampling::Logprobs::OfDistribution(p)
                                                         : sampling::Logprobs::OfModel(logits, 8);
    ASSERT_TRUE(told.has_candidate());
    ASSERT_EQ(told.candidate(), expected(tokens[at])) << "position " << at;
    ASSERT_FALSE(told.has_next_token());
    const std::vector<sampling::TokenLogprob> top = expected.Top(options.logprobs().top());
    ASSERT_EQ(static_cast<size_t>(told.top().tokens_size()), top.size());
    for (size_t i = 0; i < top.size(); ++i) {
      ASSERT_EQ(told.top().tokens(static_cast<int>(i)).token(), top[i].token);
      ASSERT_EQ(told.top().tokens(static_cast<int>(i)).logprob(), top[i].logprob);
    }
  }
}

TEST(PromptLogprobs, EqualThoseOfOneTokenDecodingInAnyChunks) {
  for (const RuleCase& rule : EveryRule()) {
    for (bool processed : {false, true}) {
      for (int max_rows : {20, 512}) {
        for (size_t size : {1u, 2u, 5u, 64u, 65u, 150u}) {
          Options service;
          service.prefill_rows = 7;
          Harness target(service, {.max_rows = max_rows});
          auto stream = target.Connect();
          const std::vector<uint32_t> prompt = Text(size);
          const internal::v1::SequenceOptions options =
              Asking(EveryOption(rule, static_cast<uint32_t>(size)), 3, processed);
          const internal::v1::Verdict verdict =
              target.Ask(stream, Wanting(FirstStep(1, prompt, {3, 1}, options)));
          ASSERT_EQ(verdict.status(), internal::v1::STATUS_OK) << verdict.ShortDebugString();
          ExpectPromptLogprobs(target, options, prompt, 0, size, verdict);
          EXPECT_TRUE(SameEntries(verdict, target.Expected(options, prompt, {3, 1})));
        }
      }
    }
  }
}

TEST(PromptLogprobs, ComeInStepsWithMore) {
  Harness target;
  auto stream = target.Connect();
  const std::vector<uint32_t> prompt = Text(180);
  for (bool processed : {false, true}) {
    const internal::v1::SequenceOptions options =
        Asking(EveryOption(EveryRule()[1], 180), 2, processed);
    const uint64_t sequence = processed ? 1 : 2;
    size_t keep = 0;
    uint64_t round = 1;
    for (size_t end : {1u, 2u, 70u, 70u, 179u, 180u}) {
      const std::vector<uint32_t> committed(prompt.begin(),
                                            prompt.begin() + static_cast<std::ptrdiff_t>(end));
      internal::v1::Step step =
          Wanting(MakeStep(sequence, round++, committed, static_cast<uint32_t>(keep)));
      if (keep == 0) *step.mutable_options() = options;
      step.set_more(end < 180);
      const int64_t rows = target.model->rows();
      const internal::v1::Verdict verdict = target.Ask(stream, step);
      ASSERT_EQ(verdict.status(), internal::v1::STATUS_OK) << verdict.ShortDebugString();
      ExpectPromptLogprobs(target, options, prompt, keep, end, verdict);
      // What is new, and the row before it.
      const size_t again = keep == 0 || keep == end ? 0 : 1;
      EXPECT_EQ(target.model->rows() - rows, static_cast<int64_t>(end - keep + again));
      EXPECT_EQ(verdict.entries_size(), end < 180 ? 0 : 1);
      keep = end;
    }
    const internal::v1::Verdict last = target.Ask(stream, MakeStep(sequence, round, prompt, 180));
    EXPECT_EQ(last.prompt_logprobs_size(), 0) << "not asked for";
    EXPECT_TRUE(SameEntries(last, target.Expected(options, prompt, {})));
  }
}

// What is held already is fed again as far as its logits are wanted, and no further.
TEST(PromptLogprobs, OfAPromptThatIsHeld) {
  Harness target;
  auto stream = target.Connect();
  const std::vector<uint32_t> prompt = Text(100);
  const internal::v1::SequenceOptions options = Asking(EveryOption(EveryRule()[3], 100), 0, true);
  target.Ask(stream, FirstStep(1, prompt, {1, 2, 3}, options));
  internal::v1::Step replay = Wanting(FirstStep(1, prompt, {5}, options));
  replay.set_round(2);
  internal::v1::Verdict verdict = target.Ask(stream, replay);
  ExpectPromptLogprobs(target, options, prompt, 0, 100, verdict);
  EXPECT_TRUE(SameEntries(verdict, target.Expected(options, prompt, {5})));
  // Of the last tokens alone; what is kept and what is told by id may be held both.
  const int64_t rows = target.model->rows();
  verdict = target.Ask(stream, Wanting(MakeStep(1, 3, prompt, 90, {5})));
  ExpectPromptLogprobs(target, options, prompt, 90, 100, verdict);
  EXPECT_EQ(target.model->rows() - rows, 10 + 1 + 1);
  EXPECT_TRUE(SameEntries(verdict, target.Expected(options, prompt, {5})));
}

TEST(PromptLogprobs, NeedTheOptionAndFitAMessage) {
  Options service;
  service.pass_rows = 4096;
  service.prefill_rows = 4096;
  Harness target(service, {.context_length = 2048, .max_rows = 4096});
  auto stream = target.Connect();
  const std::vector<uint32_t> prompt = Text(10);
  internal::v1::Verdict verdict = target.Ask(stream, Wanting(FirstStep(1, prompt)));
  EXPECT_EQ(verdict.status(), internal::v1::STATUS_INVALID);
  EXPECT_EQ(verdict.problem().field(), "prompt_logprobs");
  EXPECT_EQ(target.device->active_sequences(), 0u) << "nothing was opened";
  target.Ask(stream, FirstStep(1, prompt));
  verdict = target.Ask(stream, Wanting(MakeStep(1, 2, prompt, 5)));
  EXPECT_EQ(verdict.status(), internal::v1::STATUS_INVALID);
  EXPECT_EQ(target.Ask(stream, MakeStep(1, 2, prompt, 10)).status(), internal::v1::STATUS_OK);

  internal::v1::SequenceOptions options = Asking(SampledOptions(), 20, false);
  options.set_max_length(2048);
  verdict = target.Ask(
      stream, Wanting(FirstStep(2, Text(messages::kMaxPromptLogprobTokens + 1), {}, options)));
  EXPECT_EQ(verdict.status(), internal::v1::STATUS_INVALID);
  EXPECT_EQ(verdict.problem().field(), "prompt_logprobs");
  EXPECT_THAT(verdict.problem().message(), ::testing::HasSubstr("at most 1024 tokens per Step"));

  // Several at once are more than one message holds.
  std::vector<internal::v1::Step> steps;
  for (uint64_t i = 0; i < 16; ++i) {
    steps.push_back(
        Wanting(FirstStep(10 + i, Text(messages::kMaxPromptLogprobTokens), {}, options)));
  }
  // All of them end in one pass.
  Harness::Send(stream, steps);
  target.RunAll();
  const std::vector<internal::v1::Verdict> verdicts = stream.sink->Take();
  ASSERT_EQ(verdicts.size(), steps.size());
  size_t bytes = 0;
  for (const internal::v1::Verdict& each : verdicts) {
    EXPECT_EQ(each.prompt_logprobs_size(), messages::kMaxPromptLogprobTokens - 1);
    bytes += each.ByteSizeLong();
  }
  EXPECT_GT(bytes, size_t{messages::kMaxMessageBytes});
  EXPECT_LE(stream.sink->max_bytes(), size_t{messages::kMaxMessageBytes});
}

// A long prompt takes a bounded number of rows with logits of a pass, and others are not held up.
TEST(PromptLogprobs, TakeABoundedPartOfAPass) {
  int max = 0;
  testing::TableModelOptions model;
  model.context_length = 2048;
  model.before_pass = [&max](absl::Span<const model::ForwardPart> parts) {
    for (const model::ForwardPart& part : parts) {
      max = std::max(max, static_cast<int>(part.tokens.size()) - part.first_logits_row);
    }
    return absl::OkStatus();
  };
  Harness target({}, model);
  auto stream = target.Connect();
  internal::v1::SequenceOptions options = Asking(SampledOptions(), 0, false);
  options.set_max_length(1100);
  const std::vector<uint32_t> prompt = Text(1000);
  Harness::Send(stream, {Wanting(FirstStep(1, prompt, {1, 2}, options))});
  int passes = 0;
  uint64_t round = 0;
  const std::vector<uint32_t> other = Text(3);
  while (true) {
    if (round < 5) {
      ++round;
      internal::v1::Step step = MakeStep(2, round, other, round == 1 ? 0 : 3, {4});
      if (round == 1) *step.mutable_options() = SampledOptions();
      Harness::Send(stream, {step});
    }
    if (!target.device->RunOnce()) break;
    ++passes;
    std::vector<internal::v1::Verdict> verdicts = stream.sink->Take();
    if (passes <= 5) {
      ASSERT_EQ(verdicts.size(), 1u) << "a round waits for one pass";
      EXPECT_EQ(verdicts[0].sequence(), 2u);
    } else if (!verdicts.empty()) {
      ExpectPromptLogprobs(target, options, prompt, 0, 1000, verdicts[0]);
    }
  }
  EXPECT_GE(passes, 1000 / kMaxPromptLogprobRows);
  EXPECT_LE(max, kMaxPromptLogprobRows + 3);
  EXPECT_GE(max, kMaxPromptLogprobRows / 2);
}

TEST(PromptLogprobs, ABrokenLogitEndsTheSequence) {
  speculation::SequenceSettings settings;
  settings.rule = acceptance::Rule::kSpeculative;
  settings.logprobs = sampling::LogprobOptions{1, false};
  const std::vector<float> row = {0, 1, std::numeric_limits<float>::infinity()};
  for (bool processed : {false, true}) {
    settings.logprobs->processed = processed;
    const absl::Status status = JudgePromptRow(settings, nullptr, row, 4, 0, 3).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("after 4 tokens hold a NaN"));
  }
}

}  // namespace
}  // namespace tandem::target_service
