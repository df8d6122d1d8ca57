#include "client/generate/json_output.h"

#include <cmath>

#include "common/base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/example_outcome.h"
#include "tests/support/json.h"

namespace tandem::client {
namespace {

using base::JsonValue;
using tandem::testing::ParseJson;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(JsonOutputTest, DeltaIsOneLine) {
  v1::Delta delta;
  delta.set_text("line\n\"quoted\" é");
  delta.add_token_ids(3);
  delta.add_token_ids(4);
  const std::string line = JsonDelta(delta);
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  const JsonValue json = ParseJson(line);
  EXPECT_EQ(json.size(), 3u);
  EXPECT_EQ(json["sample_index"].Number(), 0);
  EXPECT_EQ(json["delta"].String(), "line\n\"quoted\" é");
  EXPECT_EQ(json["token_ids"].Dump(), "[3,4]");
  EXPECT_EQ(ParseJson(JsonDelta(v1::Delta()))["token_ids"].Dump(), "[]");
}

TEST(JsonOutputTest, FinalHoldsTheWholeRecord) {
  const std::string line = JsonFinal(Example());
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  const JsonValue json = ParseJson(line);
  EXPECT_EQ(json["final"].Bool(), true);
  EXPECT_EQ(json["text"].String(), "a \"b\"\n");
  EXPECT_EQ(json["token_ids"].Dump(), "[5,6,7]");
  EXPECT_EQ(json["finish_reason"].String(), "length");
  EXPECT_EQ(json["version"].Number(), 1);
  EXPECT_EQ(json["seed"].String(), "18446744073709551615") << "a number would lose digits";
  EXPECT_EQ(json["usage"].Dump(), R"({"prompt_tokens":4,"completion_tokens":10})");
  const JsonValue speculation = json["speculation"];
  EXPECT_EQ(speculation["rule"].String(), "greedy");
  EXPECT_EQ(speculation["exact"].Bool(), true);
  EXPECT_EQ(speculation["rounds"].Number(), 4);
  EXPECT_EQ(speculation["draft_tokens"].Number(), 12);
  EXPECT_EQ(speculation["accepted_tokens"].Number(), 6);
  EXPECT_EQ(speculation["accepted_histogram"].Dump(), "[1,2,0,0,1]");
  EXPECT_EQ(speculation["rounds_without_draft"].Dump(), R"({"first-round":1})");
  EXPECT_EQ(json["timing_ms"]["total"].Number(), 10.5);
  EXPECT_EQ(json["timing_ms"]["first_token"].Number(), 1.5);
  for (const char* absent :
       {"stop_string", "logprobs", "prompt_logprobs", "samples", "trace_id", "rounds"}) {
    EXPECT_FALSE(json.Has(absent)) << absent;
  }
}

TEST(JsonOutputTest, ASeedIsANumberWhileItsDigitsAreKept) {
  Outcome outcome = Example();
  outcome.started.set_seed(uint64_t{1} << 53);
  EXPECT_EQ(ParseJson(JsonFinal(outcome))["seed"].Dump(), "9007199254740992");
  outcome.started.set_seed((uint64_t{1} << 53) + 1);
  EXPECT_EQ(ParseJson(JsonFinal(outcome))["seed"].Dump(), "\"9007199254740993\"");
}

TEST(JsonOutputTest, WhatWasRefusedIsAnObjectToo) {
  EXPECT_EQ(ParseJson(JsonRefused(absl::InvalidArgumentError("no \"x\""))).Dump(),
            R"({"version":1,"refused":true,"code":"INVALID_ARGUMENT","error":"no \"x\""})");
}

TEST(JsonOutputTest, FinalHoldsWaitsAndBatches) {
  const JsonValue json = ParseJson(JsonFinal(Busy()));
  EXPECT_EQ(json["speculation"]["batch_rows"].Number(), 90);
  EXPECT_EQ(json["speculation"]["batch_sequences"].Number(), 26);
  EXPECT_EQ(json["speculation"]["mean_batch"].Number(), 6.5);
  EXPECT_EQ(json["timing_ms"]["admission"].Number(), 12.34);
  EXPECT_EQ(json["timing_ms"]["queue"].Number(), 2.5);
  EXPECT_EQ(json["timing_ms"]["slot"].Number(), 0.9);
}

TEST(JsonOutputTest, FinalHoldsStagesTraceAndRounds) {
  const JsonValue json = ParseJson(JsonFinal(Traced()));
  EXPECT_EQ(json["trace_id"].String(), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(json["timing_ms"]["stages"].Dump(),
            R"({"draft":13.5,"network":25.0,"slot":2.0,"queue":5.0,"device":23.5,"own":1.25})");
  ASSERT_EQ(json["rounds"].size(), 5u);
  EXPECT_EQ(json["rounds"][0]["cause"].String(), "first-round");
  EXPECT_EQ(
      json["rounds"][1].Dump(),
      R"({"sample_index":0,"number":1,"began_ms":20.5,"took_ms":16.0,)"
      R"("stages_ms":{"draft":3.0,"network":5.0,"slot":2.0,"queue":1.0,"device":4.0,"own":1.0},)"
      R"("draft_tokens":4,"accepted_tokens":2,"tokens":3,)"
      R"("pass_id":101,"pass_rows":0,"pass_sequences":3})");
}

TEST(JsonOutputTest, BytesThatAreNoCharacterDoNotEndTheProgram) {
  Outcome outcome = Example();
  outcome.samples[0].text = "a\xff";
  EXPECT_EQ(ParseJson(JsonFinal(outcome))["text"].String(), "a\xef\xbf\xbd");
}

TEST(JsonOutputTest, LogprobsOfADelta) {
  v1::Delta delta;
  delta.set_sample_index(3);
  delta.add_token_ids(4);
  delta.add_logprobs(-0.5F);
  v1::TokenLogprob& other = *delta.add_top_logprobs()->add_tokens();
  other.set_token(7);
  other.set_logprob(-0.25F);
  const JsonValue json = ParseJson(JsonDelta(delta));
  EXPECT_EQ(json["sample_index"].Number(), 3);
  EXPECT_EQ(json["logprobs"].Dump(), "[-0.5]");
  EXPECT_EQ(json["top_logprobs"].Dump(), R"([[{"token":7,"logprob":-0.25}]])");
}

// Two tokens that are half of "é" each, and an alternative.
TEST(JsonOutputTest, TokensHaveTheirTextsAndBytes) {
  v1::Delta delta;
  for (const char* half : {"\xc3", "\xa9"}) {
    delta.add_token_ids(4);
    delta.add_logprobs(-1);
    delta.add_token_bytes(half);
    v1::TokenLogprob& other = *delta.add_top_logprobs()->add_tokens();
    other.set_token_bytes("hi");
  }
  const JsonValue json = ParseJson(JsonDelta(delta));
  EXPECT_EQ(json["token_texts"].Dump(), "[\"\xef\xbf\xbd\",\"\xef\xbf\xbd\"]");
  EXPECT_EQ(json["token_bytes"].Dump(), "[[195],[169]]");
  EXPECT_EQ(json["top_logprobs"][1][0].Dump(),
            R"({"token":0,"logprob":0.0,"text":"hi","bytes":[104,105]})");
  Outcome outcome = Example();
  outcome.samples[0].token_bytes = {"a", " \"", "b\""};
  EXPECT_EQ(ParseJson(JsonFinal(outcome))["token_texts"].Dump(), R"(["a"," \"","b\""])");
  outcome.prompt.add_token_ids(1);
  outcome.prompt.add_token_bytes("p");
  EXPECT_EQ(ParseJson(JsonFinal(outcome))["prompt_logprobs"]["token_texts"].Dump(), R"(["p"])");
  EXPECT_FALSE(ParseJson(JsonDelta(v1::Delta())).Has("token_texts"));
}

TEST(JsonOutputTest, MinusInfinityIsNull) {
  v1::Delta delta;
  delta.add_token_ids(4);
  delta.add_logprobs(-INFINITY);
  const std::string line = JsonDelta(delta);
  EXPECT_THAT(line, HasSubstr("\"logprobs\":[null]"));
  EXPECT_TRUE(ParseJson(line)["logprobs"][0].IsNull());
}

TEST(JsonOutputTest, PromptLogprobs) {
  v1::PromptLogprobs prompt;
  prompt.set_first_position(1);
  prompt.add_token_ids(8);
  prompt.add_logprobs(-2);
  const JsonValue json = ParseJson(JsonPromptLogprobs(prompt));
  EXPECT_EQ(json["prompt_logprobs"]["first_position"].Number(), 1);
  EXPECT_EQ(json["prompt_logprobs"]["token_ids"].Dump(), "[8]");
  EXPECT_EQ(json["prompt_logprobs"]["logprobs"].Dump(), "[-2.0]");
  EXPECT_FALSE(json["prompt_logprobs"].Has("top_logprobs"));
  Outcome outcome = Example();
  outcome.prompt = prompt;
  EXPECT_EQ(ParseJson(JsonFinal(outcome))["prompt_logprobs"].Dump(),
            json["prompt_logprobs"].Dump());
}

TEST(JsonOutputTest, SeveralSamples) {
  const JsonValue json = ParseJson(JsonFinal(TwoSamples()));
  EXPECT_EQ(json["text"].String(), "a \"b\"\n");
  ASSERT_EQ(json["samples"].size(), 2u);
  EXPECT_EQ(json["samples"][0]["completion_tokens"].Number(), 8);
  const JsonValue second = json["samples"][1];
  EXPECT_EQ(second["sample_index"].Number(), 1);
  EXPECT_EQ(second["text"].String(), "zwei");
  EXPECT_EQ(second["token_ids"].Dump(), "[9,10]");
  EXPECT_EQ(second["finish_reason"].String(), "stop");
  EXPECT_EQ(second["stop_string"].String(), "!");
  EXPECT_EQ(second["logprobs"].Dump(), "[-0.125,null]");
  EXPECT_EQ(second["speculation"]["tokens_per_target_pass"].Number(), 2);
}

TEST(JsonOutputTest, AnInterruptedRequestTellsHowToResume) {
  v1::GenerateRequest request;
  request.add_output_prefix_ids(1);
  request.set_first_sample(2);
  const JsonValue json =
      ParseJson(JsonInterrupted(Example(), request, absl::UnavailableError("socket \"closed\"")));
  EXPECT_EQ(json["interrupted"].Bool(), true);
  EXPECT_FALSE(json.Has("final"));
  EXPECT_EQ(json["error"].String(), "UNAVAILABLE: socket \"closed\"");
  EXPECT_EQ(json["version"].Number(), 1);
  EXPECT_EQ(json["seed"].String(), "18446744073709551615") << "a number would lose digits";
  EXPECT_EQ(json["rule"].String(), "greedy");
  EXPECT_EQ(json["samples"][0]["output_prefix_ids"].Dump(), "[1,5,6,7]");
  EXPECT_EQ(json["samples"][0]["first_sample"].Number(), 2);
  EXPECT_FALSE(json.Has("trace_id"));
  EXPECT_EQ(
      ParseJson(JsonInterrupted(Traced(), request, absl::InternalError("x")))["trace_id"].String(),
      "4bf92f3577b34da6a3ce929d0e0e4736");
}

}  // namespace
}  // namespace tandem::client
