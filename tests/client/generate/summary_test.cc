#include "client/generate/summary.h"

#include "absl/strings/str_split.h"
#include "client/generate/logprob_table.h"
#include "client/generate/resume.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/example_outcome.h"

namespace tandem::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(SummaryTest, SummaryNamesWaitsAndBatchesThatAreNotTrivial) {
  EXPECT_THAT(Summary(Busy()),
              AllOf(HasSubstr("waited 12.3 ms to be admitted, 2.5 ms for the target's device\n"),
                    HasSubstr("6.5 sequences per target pass, on average")));
  Outcome alone = Example();
  alone.last.mutable_speculation()->set_batch_sequences(4);  // in its 4 rounds
  EXPECT_THAT(Summary(alone), AllOf(Not(HasSubstr("waited")), Not(HasSubstr("sequences"))));
}

TEST(SummaryTest, SummaryShowsBarsAndCauses) {
  EXPECT_THAT(
      Summary(Example()),
      AllOf(HasSubstr("10 tokens (length) in 4 rounds: 2.50 tokens per target pass"),
            HasSubstr("accepted 6 of 12 drafted; alpha-hat 0.75; rule greedy, exact"),
            HasSubstr("accepted  0 │████████████████████ 1\n"), HasSubstr("accepted  2 │ 0\n"),
            HasSubstr("first token after 1.5 ms, then 1.00 ms per token"),
            HasSubstr("rounds without a draft: first-round 1"), Not(HasSubstr("replays"))));
}

TEST(SummaryTest, SummaryOfTheTargetAloneHasNoBars) {
  Outcome outcome = Example();
  outcome.last.mutable_speculation()->set_draft_tokens(0);
  EXPECT_THAT(Summary(outcome),
              AllOf(Not(HasSubstr("│")), HasSubstr("nothing was drafted; rule greedy, exact\n")));
}

TEST(SummaryTest, SummaryNamesWhatWentWrongOnTheWay) {
  Outcome outcome = Example();
  outcome.last.mutable_speculation()->set_target_replays(2);
  outcome.last.mutable_speculation()->set_one_hot_blocks(3);
  EXPECT_THAT(Summary(outcome), AllOf(HasSubstr("target replays 2"), HasSubstr("refused: 3")));
}

TEST(SummaryTest, WhatIsNotExactSaysSo) {
  Outcome outcome = Example();
  outcome.last.mutable_speculation()->set_rule(v1::RULE_LENIENT);
  outcome.last.mutable_speculation()->set_exact(false);
  EXPECT_THAT(Summary(outcome), HasSubstr("rule lenient, NOT exact; seed 18446744073709551615\n"));
}

TEST(SummaryTest, WhereTheRoundsTimeWentTheMostFirst) {
  EXPECT_THAT(Summary(Traced()),
              HasSubstr("  a round took 14.1 ms: network 36 %, device 33 %, draft 19 %, queue 7 %, "
                        "slot 3 %, own 2 %\n"));
  Outcome outcome = Traced();
  v1::Stages& stages = *outcome.last.mutable_timing()->mutable_stages();
  stages.Clear();
  stages.set_device_us(996);
  stages.set_own_us(4);  // not worth naming
  EXPECT_THAT(Summary(outcome), HasSubstr("  a round took 0.2 ms: device 100 %\n"));
  EXPECT_THAT(Summary(Example()), Not(HasSubstr("a round took")));  // nobody measured it
}

TEST(SummaryTest, ATracedRequestEndsWithItsTrace) {
  const std::string text = Summary(Traced());
  EXPECT_THAT(text, ::testing::EndsWith("\n  trace 4bf92f3577b34da6a3ce929d0e0e4736\n"));
  EXPECT_THAT(Summary(Example()), Not(HasSubstr("trace")));
}

TEST(SummaryTest, SeveralSamples) {
  EXPECT_THAT(Summary(TwoSamples()),
              AllOf(HasSubstr("10 tokens in 2 samples (length 1, stop 1) in 4 rounds"),
                    HasSubstr("rule coupled, exact; seed")));
  EXPECT_EQ(SamplesText(TwoSamples(), 3, /*complete=*/true),
            "=== sample 3, 3 tokens, length ===\na \"b\"\n\n\n"
            "=== sample 4, 2 tokens, stop ===\nzwei\n");
  EXPECT_THAT(SamplesText(TwoSamples(), 0, /*complete=*/false),
              AllOf(HasSubstr("sample 0, 3 tokens, unfinished"), Not(HasSubstr("stop"))));
}

TEST(SummaryTest, LogprobTable) {
  EXPECT_EQ(LogprobTable(Example()), "");
  const std::string table = LogprobTable(TwoSamples());
  EXPECT_THAT(table, AllOf(HasSubstr("log probabilities of sample 1\n"), Not(HasSubstr("sample 0")),
                           HasSubstr("        0       9   -0.1250  88.25%      9  -0.125\n"),
                           HasSubstr("        1      10      -inf   0.00%\n")));
}

TEST(SummaryTest, LogprobTableFitsEightyColumns) {
  Outcome outcome = Example();
  outcome.prompt.set_first_position(131'071);
  outcome.prompt.add_token_ids(128'255);
  outcome.prompt.add_logprobs(-123.4567F);
  v1::TopLogprobs& top = *outcome.prompt.add_top();
  for (uint32_t i = 0; i < 20; ++i) {
    v1::TokenLogprob& entry = *top.add_tokens();
    entry.set_token(128'200 + i);
    entry.set_logprob(-12.345F);
  }
  const std::string table = LogprobTable(outcome);
  EXPECT_THAT(table, AllOf(HasSubstr("of the prompt"), HasSubstr("128219")));
  for (absl::string_view line : absl::StrSplit(table, '\n')) EXPECT_LE(line.size(), 80u) << line;
}

TEST(SummaryTest, LogprobTableHasTheTextsOfTokens) {
  Outcome outcome = TwoSamples();
  outcome.samples[1].token_bytes = {" don't\n", "\xc3"};
  for (int i = 0; i < 5; ++i) {
    v1::TokenLogprob& other = *outcome.samples[1].top_logprobs[0].add_tokens();
    other.set_token(128'200);
    other.set_logprob(-12.345F);
    other.set_token_bytes(i == 0 ? std::string(100, 'x') + "é" : " said");
  }
  const std::string table = LogprobTable(outcome);
  EXPECT_THAT(table,
              AllOf(HasSubstr("    prob  text; below: most likely tokens\n"),
                    HasSubstr("        0       9   -0.1250  88.25%  \" don't\\n\"\n          9 "),
                    HasSubstr("  128200 \"" + std::string(37, 'x') + "…\" -12.345"),
                    HasSubstr("  128200 \" said\" -12.345  128200 \" said\" -12.345"),
                    HasSubstr("        1      10      -inf   0.00%  \"\\xc3\"\n")));
  for (absl::string_view line : absl::StrSplit(table, '\n')) EXPECT_LE(line.size(), 80u) << line;
}

TEST(SummaryTest, ResumeHint) {
  v1::GenerateRequest request;
  EXPECT_EQ(ResumeHint(Outcome(), request), "");  // never started
  EXPECT_THAT(ResumeHint(Example(), request),
              AllOf(HasSubstr("rule greedy: the same tokens follow"),
                    HasSubstr("  --seed=18446744073709551615 --output-prefix-ids=5,6,7\n")));
  request.set_first_sample(4);
  EXPECT_THAT(ResumeHint(TwoSamples(), request),
              HasSubstr(" --rule=coupled --samples=1 --first-sample=5 --output-prefix-ids=9,10\n"));
  // Resumed once before.
  request.set_first_sample(0);
  request.add_output_prefix_ids(3);
  EXPECT_THAT(ResumeHint(Example(), request), HasSubstr("--output-prefix-ids=3,5,6,7\n"));
}

TEST(SummaryTest, ResumeHintSaysWhatTheRulePromises) {
  Outcome outcome = Example();
  outcome.started.set_rule(v1::RULE_BLOCK);
  EXPECT_THAT(ResumeHint(outcome, {}), HasSubstr("rule block: other tokens may follow"));
  EXPECT_THAT(ResumeHint(outcome, {}), HasSubstr(" --rule=block --output-prefix-ids=5,6,7\n"));
  v1::GenerateRequest named;
  named.mutable_speculation()->set_rule(v1::RULE_BLOCK);  // the command says it already
  EXPECT_THAT(ResumeHint(outcome, named), Not(HasSubstr("--rule")));
  outcome.samples[0].token_ids.assign(kMaxHintedIds + 1, 123'456);
  EXPECT_THAT(ResumeHint(outcome, {}), AllOf(HasSubstr("its 513 ids"), Not(HasSubstr("123456"))));
}

}  // namespace
}  // namespace tandem::client
