#include "client/json_output.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/example_outcome.h"

namespace tandem::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

TEST(JsonOutputTest, DeltaIsOneLine) {
  v1::Delta delta;
  delta.set_text("line\n\"quoted\" é");
  delta.add_token_ids(3);
  delta.add_token_ids(4);
  const std::string line = JsonDelta(delta);
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  Json json = Json::parse(line);
  EXPECT_EQ(json.size(), 3u);
  EXPECT_EQ(json["sample_index"], 0);
  EXPECT_EQ(json["delta"], "line\n\"quoted\" é");
  EXPECT_EQ(json["token_ids"], Json({3, 4}));
  EXPECT_EQ(Json::parse(JsonDelta(v1::Delta()))["token_ids"], Json::array());
}

TEST(JsonOutputTest, FinalHoldsTheWholeRecord) {
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
  for (const char* absent :
       {"stop_string", "logprobs", "prompt_logprobs", "samples", "trace_id", "rounds"}) {
    EXPECT_FALSE(json.contains(absent)) << absent;
  }
}

TEST(JsonOutputTest, FinalHoldsWaitsAndBatches) {
  const Json json = Json::parse(JsonFinal(Busy()));
  EXPECT_EQ(json["speculation"]["batch_rows"], 90);
  EXPECT_EQ(json["speculation"]["batch_sequences"], 26);
  EXPECT_EQ(json["speculation"]["mean_batch"], 6.5);
  EXPECT_EQ(json["timing_ms"]["admission"], 12.34);
  EXPECT_EQ(json["timing_ms"]["queue"], 2.5);
  EXPECT_EQ(json["timing_ms"]["slot"], 0.9);
}

TEST(JsonOutputTest, FinalHoldsStagesTraceAndRounds) {
  const Json json = Json::parse(JsonFinal(Traced()));
  EXPECT_EQ(json["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(json["timing_ms"]["stages"], Json({{"draft", 13.5},
                                               {"network", 25.0},
                                               {"slot", 2.0},
                                               {"queue", 5.0},
                                               {"device", 23.5},
                                               {"own", 1.25}}));
  ASSERT_EQ(json["rounds"].size(), 5u);
  EXPECT_EQ(json["rounds"][0]["cause"], "first-round");
  EXPECT_EQ(json["rounds"][1], Json({{"sample_index", 0},
                                     {"number", 1},
                                     {"began_ms", 20.5},
                                     {"took_ms", 16.0},
                                     {"stages_ms",
                                      {{"draft", 3.0},
                                       {"network", 5.0},
                                       {"slot", 2.0},
                                       {"queue", 1.0},
                                       {"device", 4.0},
                                       {"own", 1.0}}},
                                     {"drafted", 4},
                                     {"accepted", 2},
                                     {"tokens", 3},
                                     {"pass_id", 101},
                                     {"pass_rows", 0},
                                     {"pass_sequences", 3}}));
}

TEST(JsonOutputTest, BytesThatAreNoCharacterDoNotEndTheProgram) {
  Outcome outcome = Example();
  outcome.samples[0].text = "a\xff";
  EXPECT_EQ(Json::parse(JsonFinal(outcome))["text"], "a\xef\xbf\xbd");
}

TEST(JsonOutputTest, LogprobsOfADelta) {
  v1::Delta delta;
  delta.set_sample_index(3);
  delta.add_token_ids(4);
  delta.add_logprobs(-0.5F);
  v1::TokenLogprob& other = *delta.add_top_logprobs()->add_tokens();
  other.set_token(7);
  other.set_logprob(-0.25F);
  const Json json = Json::parse(JsonDelta(delta));
  EXPECT_EQ(json["sample_index"], 3);
  EXPECT_EQ(json["logprobs"], Json({-0.5}));
  EXPECT_EQ(json["top_logprobs"], Json::parse(R"([[{"token": 7, "logprob": -0.25}]])"));
}

TEST(JsonOutputTest, MinusInfinityIsNull) {
  v1::Delta delta;
  delta.add_token_ids(4);
  delta.add_logprobs(-INFINITY);
  const std::string line = JsonDelta(delta);
  EXPECT_THAT(line, HasSubstr("\"logprobs\":[null]"));
  EXPECT_TRUE(Json::parse(line)["logprobs"][0].is_null());
}

TEST(JsonOutputTest, PromptLogprobs) {
  v1::PromptLogprobs prompt;
  prompt.set_first_position(1);
  prompt.add_token_ids(8);
  prompt.add_logprobs(-2);
  Json json = Json::parse(JsonPromptLogprobs(prompt));
  EXPECT_EQ(json["prompt_logprobs"]["first_position"], 1);
  EXPECT_EQ(json["prompt_logprobs"]["token_ids"], Json({8}));
  EXPECT_EQ(json["prompt_logprobs"]["logprobs"], Json({-2.0}));
  EXPECT_FALSE(json["prompt_logprobs"].contains("top_logprobs"));
  Outcome outcome = Example();
  outcome.prompt = prompt;
  EXPECT_EQ(Json::parse(JsonFinal(outcome))["prompt_logprobs"], json["prompt_logprobs"]);
}

TEST(JsonOutputTest, SeveralSamples) {
  const Json json = Json::parse(JsonFinal(TwoSamples()));
  EXPECT_EQ(json["text"], "a \"b\"\n");
  ASSERT_EQ(json["samples"].size(), 2u);
  EXPECT_EQ(json["samples"][0]["completion_tokens"], 8);
  const Json& second = json["samples"][1];
  EXPECT_EQ(second["sample_index"], 1);
  EXPECT_EQ(second["text"], "zwei");
  EXPECT_EQ(second["token_ids"], Json({9, 10}));
  EXPECT_EQ(second["finish_reason"], "stop");
  EXPECT_EQ(second["stop_string"], "!");
  EXPECT_EQ(second["logprobs"], Json({-0.125, nullptr}));
  EXPECT_EQ(second["speculation"]["tokens_per_target_pass"], 2);
}

TEST(JsonOutputTest, AnInterruptedRequestTellsHowToResume) {
  v1::GenerateRequest request;
  request.add_output_prefix_ids(1);
  request.set_first_sample(2);
  const Json json =
      Json::parse(JsonInterrupted(Example(), request, absl::UnavailableError("socket \"closed\"")));
  EXPECT_EQ(json["interrupted"], true);
  EXPECT_FALSE(json.contains("final"));
  EXPECT_EQ(json["error"], "UNAVAILABLE: socket \"closed\"");
  EXPECT_EQ(json["seed"], UINT64_MAX);
  EXPECT_EQ(json["rule"], "greedy");
  EXPECT_EQ(json["samples"][0]["output_prefix_ids"], Json({1, 5, 6, 7}));
  EXPECT_EQ(json["samples"][0]["first_sample"], 2);
  EXPECT_FALSE(json.contains("trace_id"));
  EXPECT_EQ(Json::parse(JsonInterrupted(Traced(), request, absl::InternalError("x")))["trace_id"],
            "4bf92f3577b34da6a3ce929d0e0e4736");
}

}  // namespace
}  // namespace tandem::client
