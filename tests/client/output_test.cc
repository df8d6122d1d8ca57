#include "client/output.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace tandem::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

// 10 tokens: a first round without a draft, two rounds that end by a rejection, one that stands.
Outcome Example() {
  Outcome outcome;
  outcome.text = "a \"b\"\n";
  outcome.token_ids = {5, 6, 7};
  outcome.started.set_seed(UINT64_MAX);
  outcome.last.set_finish_reason(v1::FINISH_REASON_LENGTH);
  outcome.last.mutable_usage()->set_prompt_tokens(4);
  outcome.last.mutable_usage()->set_completion_tokens(10);
  v1::AcceptanceRecord& record = *outcome.last.mutable_speculation();
  record.set_rule(v1::RULE_GREEDY);
  record.set_exact(true);
  record.set_rounds(4);
  record.set_drafted(12);
  record.set_accepted(6);
  record.set_rejected_rounds(2);
  for (uint32_t rounds : {1, 2, 0, 0, 1}) record.add_accepted_histogram(rounds);
  v1::CausedRounds& caused = *record.add_rounds_without_draft();
  caused.set_cause("first-round");
  caused.set_rounds(1);
  v1::Timing& timing = *outcome.last.mutable_timing();
  timing.set_total_us(10'500);
  timing.set_first_token_us(1'500);
  return outcome;
}

TEST(OutputTest, AlphaHatCountsOnlyCandidatesThatWereLookedAt) {
  EXPECT_DOUBLE_EQ(AlphaHat(Example().last.speculation()), 0.75);
  EXPECT_EQ(AlphaHat(v1::AcceptanceRecord()), 0);
}

TEST(OutputTest, RatesOfAWholeRequest) {
  EXPECT_DOUBLE_EQ(TokensPerPass(Example().last), 2.5);
  EXPECT_DOUBLE_EQ(MillisecondsPerToken(Example().last), 1.0);
  EXPECT_EQ(TokensPerPass(v1::Last()), 0);
  EXPECT_EQ(MillisecondsPerToken(v1::Last()), 0);
}

TEST(OutputTest, DeltaIsOneLine) {
  v1::Delta delta;
  delta.set_text("line\n\"quoted\" é");
  delta.add_token_ids(3);
  delta.add_token_ids(4);
  const std::string line = JsonDelta(delta);
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  Json json = Json::parse(line);
  EXPECT_EQ(json.size(), 2u);
  EXPECT_EQ(json["delta"], "line\n\"quoted\" é");
  EXPECT_EQ(json["token_ids"], Json({3, 4}));
  EXPECT_EQ(Json::parse(JsonDelta(v1::Delta()))["token_ids"], Json::array());
}

TEST(OutputTest, FinalHoldsTheWholeRecord) {
  const std::string line = JsonFinal(Example());
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  Json json = Json::parse(line);
  EXPECT_EQ(json["final"], true);
  EXPECT_EQ(json["text"], "a \"b\"\n");
  EXPECT_EQ(json["token_ids"], Json({5, 6, 7}));
  EXPECT_EQ(json["finish_reason"], "length");
  EXPECT_EQ(json["seed"], UINT64_MAX);
  EXPECT_EQ(json["usage"], Json({{"prompt_tokens", 4}, {"completion_tokens", 10}}));
  const Json& speculation = json["speculation"];
  EXPECT_EQ(speculation["rule"], "greedy");
  EXPECT_EQ(speculation["exact"], true);
  EXPECT_EQ(speculation["rounds"], 4);
  EXPECT_EQ(speculation["drafted"], 12);
  EXPECT_EQ(speculation["accepted"], 6);
  EXPECT_EQ(speculation["accepted_histogram"], Json({1, 2, 0, 0, 1}));
  EXPECT_EQ(speculation["rounds_without_draft"], Json({{"first-round", 1}}));
  EXPECT_EQ(json["timing_ms"]["total"], 10.5);
  EXPECT_EQ(json["timing_ms"]["first_token"], 1.5);
  EXPECT_FALSE(json.contains("stop_string"));
}

// Waited for its turn, then shared passes with others.
Outcome Busy() {
  Outcome outcome = Example();
  outcome.last.mutable_speculation()->set_batch_rows(90);
  outcome.last.mutable_speculation()->set_batch_sequences(26);
  outcome.last.mutable_timing()->set_admission_us(12'340);
  outcome.last.mutable_timing()->set_queue_us(2'500);
  outcome.last.mutable_timing()->set_slot_us(900);
  return outcome;
}

TEST(OutputTest, FinalHoldsWaitsAndBatches) {
  const Json json = Json::parse(JsonFinal(Busy()));
  EXPECT_EQ(json["speculation"]["batch_rows"], 90);
  EXPECT_EQ(json["speculation"]["batch_sequences"], 26);
  EXPECT_EQ(json["speculation"]["mean_batch"], 6.5);
  EXPECT_EQ(json["timing_ms"]["admission"], 12.34);
  EXPECT_EQ(json["timing_ms"]["queue"], 2.5);
  EXPECT_EQ(json["timing_ms"]["slot"], 0.9);
  EXPECT_EQ(MeanBatch(v1::AcceptanceRecord()), 0);
}

TEST(OutputTest, SummaryNamesWaitsAndBatchesThatAreNotTrivial) {
  EXPECT_THAT(Summary(Busy()),
              AllOf(HasSubstr("waited 12.3 ms to be admitted, 2.5 ms for the target's device\n"),
                    HasSubstr("6.5 sequences in a target pass, on average")));
  Outcome alone = Example();
  alone.last.mutable_speculation()->set_batch_sequences(4);  // in its 4 rounds
  EXPECT_THAT(Summary(alone), AllOf(Not(HasSubstr("waited")), Not(HasSubstr("sequences"))));
}

TEST(OutputTest, BytesThatAreNoCharacterDoNotEndTheProgram) {
  Outcome outcome = Example();
  outcome.text = "a\xff";
  EXPECT_EQ(Json::parse(JsonFinal(outcome))["text"], "a\xef\xbf\xbd");
}

TEST(OutputTest, SummaryShowsBarsAndCauses) {
  EXPECT_THAT(
      Summary(Example()),
      AllOf(HasSubstr("10 tokens (length) in 4 rounds: 2.50 tokens a target pass"),
            HasSubstr("accepted 6 of 12 drafted; alpha-hat 0.75; rule greedy, exact"),
            HasSubstr("accepted  0 │████████████████████ 1\n"), HasSubstr("accepted  2 │ 0\n"),
            HasSubstr("first token after 1.5 ms, then 1.00 ms a token"),
            HasSubstr("rounds without a draft: first-round 1"), Not(HasSubstr("replays"))));
}

TEST(OutputTest, SummaryOfTheTargetAloneHasNoBars) {
  Outcome outcome = Example();
  outcome.last.mutable_speculation()->set_drafted(0);
  EXPECT_THAT(Summary(outcome), Not(HasSubstr("│")));
}

TEST(OutputTest, SummaryNamesWhatWentWrongOnTheWay) {
  Outcome outcome = Example();
  outcome.last.mutable_speculation()->set_target_replays(2);
  outcome.last.mutable_speculation()->set_one_hot_blocks(3);
  EXPECT_THAT(Summary(outcome), AllOf(HasSubstr("target replays 2"), HasSubstr("refused: 3")));
}

}  // namespace
}  // namespace tandem::client
