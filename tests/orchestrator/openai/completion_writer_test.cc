// Replies of the generator as answers: streams and objects.
#include "orchestrator/openai/completion_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/json.h"

namespace tandem::orchestrator {
namespace {

using base::JsonValue;
using ::testing::EndsWith;

std::string Letter(uint32_t id) {
  if (id == 100) return "\xc3";   // half of a character
  if (id == 101) return "\xa9";   // the other half
  if (id == 200) return "<end>";  // a special token
  return std::string(1, static_cast<char>('a' + id));
}

class Letters final : public Detokenizer {
 public:
  absl::StatusOr<std::string> Feed(uint32_t id) override {
    if (id == 200) return "";
    const bool half = std::exchange(half_, id == 100);
    if (id == 101) return half ? "\u00e9" : "\ufffd";
    return (half ? "\ufffd" : "") + (id == 100 ? "" : Letter(id));
  }
  std::string Finish() override { return std::exchange(half_, false) ? "\ufffd" : ""; }

 private:
  bool half_ = false;
};

CompletionWriter Make(WriterOptions options) {
  options.model = "m";
  options.created = 7;
  options.detokenizer = [](uint32_t /*prompt*/) { return std::make_unique<Letters>(); };
  return CompletionWriter(std::move(options), TextForm(&Letter));
}

v1::GenerateReply Started() {
  v1::GenerateReply reply;
  v1::Started& started = *reply.mutable_started();
  started.set_request_id("id");
  started.set_seed(18446744073709551615u);
  started.set_rule(v1::RULE_COUPLED);
  started.set_exact(true);
  started.set_target_model_id("big");
  started.set_numerics_id("fp32");
  return reply;
}

v1::GenerateReply Delta(uint32_t sample, const std::string& text, std::vector<uint32_t> ids,
                        bool logprobs = false) {
  v1::GenerateReply reply;
  v1::Delta& delta = *reply.mutable_delta();
  delta.set_sample_index(sample);
  delta.set_text(text);
  for (uint32_t id : ids) {
    delta.add_token_ids(id);
    if (!logprobs) continue;
    delta.add_logprobs(id == 0 ? -std::numeric_limits<float>::infinity() : -0.5f);
    v1::TokenLogprob& top = *delta.add_top_logprobs()->add_tokens();
    top.set_token(id + 1);
    top.set_logprob(-0.25f);
  }
  return reply;
}

v1::GenerateReply Last(uint32_t samples) {
  v1::GenerateReply reply;
  v1::Last& last = *reply.mutable_last();
  last.mutable_usage()->set_prompt_tokens(3);
  last.mutable_usage()->set_completion_tokens(4);
  v1::AcceptanceRecord& record = *last.mutable_speculation();
  record.set_rule(v1::RULE_COUPLED);
  record.set_exact(true);
  record.set_rounds(5);
  record.set_draft_tokens(12);
  record.set_accepted_tokens(6);
  for (uint32_t rounds : {2, 1, 1, 1}) record.add_accepted_histogram(rounds);
  v1::CausedRounds& first = *record.add_rounds_without_draft();
  first.set_cause("first-round");
  first.set_rounds(1);
  for (uint32_t i = 0; i < samples; ++i) {
    v1::SampleEnd& end = *last.add_samples();
    end.set_sample_index(i);
    end.set_finish_reason(i == 0 ? v1::FINISH_REASON_STOP : v1::FINISH_REASON_LENGTH);
    if (i == 0) end.set_stop_string("END");
  }
  return reply;
}

// The events' objects; "[DONE]" becomes null.
std::vector<JsonValue> Parsed(const std::string& events) {
  std::vector<JsonValue> objects;
  for (absl::string_view event : absl::StrSplit(events, "\n\n", absl::SkipEmpty())) {
    EXPECT_TRUE(absl::ConsumePrefix(&event, "data: ")) << event;
    if (event == "[DONE]") {
      objects.emplace_back();
      continue;
    }
    const auto json = JsonValue::Parse(event);
    EXPECT_TRUE(json.ok()) << event;
    if (json.ok()) objects.push_back(*json);
  }
  return objects;
}

TEST(CompletionWriter, StreamsTextAndEnds) {
  CompletionWriter writer = Make({.samples = 2});
  EXPECT_EQ(writer.Events(Started()), "");
  const auto first = Parsed(writer.Events(Delta(1, "hi", {7, 8})));
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0]["id"].String(), "cmpl-id");
  EXPECT_EQ(first[0]["object"].String(), "text_completion");
  EXPECT_EQ(first[0]["created"].Integer(), 7);
  EXPECT_EQ(first[0]["model"].String(), "m");
  EXPECT_EQ(first[0]["system_fingerprint"].String(), "big:fp32");
  EXPECT_EQ(first[0]["tandem"]["seed"].String(), "18446744073709551615");
  EXPECT_EQ(first[0]["tandem"]["rule"].String(), "coupled");
  const JsonValue choice = first[0]["choices"][0];
  EXPECT_EQ(choice["index"].Integer(), 1);
  EXPECT_EQ(choice["text"].String(), "hi");
  EXPECT_TRUE(choice["finish_reason"].IsNull() && choice["logprobs"].IsNull());
  EXPECT_FALSE(choice.Has("token_ids"));
  EXPECT_EQ(writer.Events(Delta(0, "", {1})), "") << "its text comes later";
  const auto last = Parsed(writer.Events(Last(2)));
  ASSERT_EQ(last.size(), 3u);
  EXPECT_EQ(last[0]["choices"][0]["finish_reason"].String(), "stop");
  EXPECT_EQ(last[0]["choices"][0]["stop_reason"].String(), "END");
  EXPECT_EQ(last[1]["choices"][0]["finish_reason"].String(), "length");
  EXPECT_FALSE(last[0].Has("usage") || last[0].Has("tandem"));
  EXPECT_TRUE(last[2].IsNull());
}

TEST(CompletionWriter, AStreamHasItsUsageWhenAskedFor) {
  CompletionWriter writer = Make({.include_usage = true, .draft_tokens = 3});
  writer.Events(Started());
  const std::string events = writer.Events(Last(1));
  EXPECT_THAT(events, EndsWith("data: [DONE]\n\n"));
  const auto last = Parsed(events);
  ASSERT_EQ(last.size(), 3u);
  EXPECT_EQ(last[1]["choices"].size(), 0u);
  EXPECT_EQ(last[1]["usage"]["prompt_tokens"].Integer(), 3);
  EXPECT_EQ(last[1]["usage"]["total_tokens"].Integer(), 7);
  const JsonValue record = last[1]["usage"]["speculation"];
  EXPECT_EQ(record["rounds"].Integer(), 5);
  EXPECT_EQ(record["rounds_without_draft"]["first-round"].Integer(), 1);
  EXPECT_EQ(record["accepted_histogram"].Dump(), "[2,1,1,1]");
  // Of the four rounds that had a draft.
  const JsonValue spec = last[1]["metrics"]["speculative_decoding"];
  EXPECT_EQ(spec["num_spec_steps"].Integer(), 4);
  EXPECT_EQ(spec["mean_acceptance_length"].Number(), 2.5);
  EXPECT_EQ(spec["draft_acceptance_rate"].Number(), 0.5);
  EXPECT_EQ(spec["acceptance_histogram"].Dump(), "[1,1,1,1]");
  EXPECT_EQ(spec["num_accepted_draft_tokens"].Integer(), 6);
  EXPECT_EQ(spec["num_draft_tokens"].Integer(), 12);
  EXPECT_EQ(spec["num_spec_tokens"].Integer(), 3);
}

TEST(CompletionWriter, LogProbabilitiesCountOnThroughAStream) {
  CompletionWriter writer = Make({.return_token_ids = true, .logprobs = true});
  writer.Events(Started());
  const auto first = Parsed(writer.Events(Delta(0, "ab", {0, 1}, true)))[0]["choices"][0];
  EXPECT_EQ(first["token_ids"].Dump(), "[0,1]");
  EXPECT_EQ(first["logprobs"]["tokens"].Dump(), R"(["a","b"])");
  EXPECT_EQ(first["logprobs"]["token_logprobs"].Dump(), "[-9999.0,-0.5]");
  EXPECT_EQ(first["logprobs"]["top_logprobs"].Dump(),
            R"([{"b":-0.25,"a":-9999.0},{"c":-0.25,"b":-0.5}])")
      << "the token itself is there, whatever its place";
  EXPECT_EQ(first["logprobs"]["text_offset"].Dump(), "[0,1]");
  const auto second = Parsed(writer.Events(Delta(0, "", {100}, true)))[0]["choices"][0];
  EXPECT_EQ(second["logprobs"]["tokens"].Dump(), R"(["bytes:\\xc3"])");
  EXPECT_EQ(second["logprobs"]["text_offset"].Dump(), "[2]");
}

TEST(CompletionWriter, AnObjectHasAllThatAStreamHas) {
  CompletionWriter writer =
      Make({.prompts = {{"so: "}}, .samples = 2, .return_token_ids = true, .logprobs = true});
  writer.Keep(Started());
  writer.Keep(Delta(0, "a", {0}, true));
  writer.Keep(Delta(1, "x", {23}, true));
  writer.Keep(Delta(0, "b", {1}, true));
  EXPECT_GT(writer.kept_bytes(), 100u);
  writer.Keep(Last(2));
  const auto whole = JsonValue::Parse(writer.Whole());
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ((*whole)["id"].String(), "cmpl-id");
  const JsonValue first = (*whole)["choices"][0];
  EXPECT_EQ(first["text"].String(), "so: ab");
  EXPECT_EQ(first["token_ids"].Dump(), "[0,1]");
  EXPECT_EQ(first["logprobs"]["tokens"].Dump(), R"(["a","b"])");
  EXPECT_EQ(first["logprobs"]["text_offset"].Dump(), "[4,5]") << "in the text, which has the echo";
  EXPECT_EQ(first["finish_reason"].String(), "stop");
  EXPECT_EQ((*whole)["choices"][1]["text"].String(), "so: x");
  EXPECT_EQ((*whole)["usage"]["completion_tokens"].Integer(), 4);
  EXPECT_TRUE((*whole)["tandem"].Has("timing"));
}

// Of a text "aéb" with a special token in it, which ends with a stop string "bcd" or does not.
TEST(CompletionWriter, OffsetsAreThoseOfTheTextThatWasSent) {
  const std::vector<v1::GenerateReply> replies = {
      Started(), Delta(0, "a", {0, 100}, true),  // half of a character waits for the other half
      Delta(0, "\u00e9", {101}, true),
      Delta(0, "", {200, 1, 2}, true)};  // "bc" may begin a stop string
  const auto all_offsets = [&](const v1::GenerateReply& delta, bool stream) {
    CompletionWriter writer = Make({.logprobs = true});
    std::string events;
    for (const v1::GenerateReply& reply : replies) {
      stream ? events += writer.Events(reply) : (writer.Keep(reply), events);
    }
    for (const v1::GenerateReply& reply : {delta, Last(1)}) {
      stream ? events += writer.Events(reply) : (writer.Keep(reply), events);
    }
    std::string offsets;
    for (const JsonValue& event :
         stream ? Parsed(events) : std::vector<JsonValue>{*JsonValue::Parse(writer.Whole())}) {
      for (const JsonValue& one : event["choices"][0]["logprobs"]["text_offset"].Elements()) {
        offsets += one.Dump() + " ";
      }
    }
    return offsets;
  };
  for (const bool stream : {false, true}) {
    EXPECT_EQ(all_offsets(Delta(0, "bce", {4}, true), stream), "0 1 1 2 2 3 4 ") << stream;
    EXPECT_EQ(all_offsets(Delta(0, "", {3}, true), stream), "0 1 1 2 2 2 2 ")
        << "none is past the end" << stream;
  }
}

TEST(CompletionWriter, SeveralPromptsAreOneAnswer) {
  const std::vector<std::pair<uint32_t, v1::GenerateReply>> replies = {
      {1, Started()},           {1, Delta(0, "x", {23})},
      {0, Started()},           {0, Delta(1, "b", {1})},
      {1, Delta(1, "y", {24})}, {1, Last(2)},
      {0, Delta(0, "a", {0})},  {0, Last(2)}};
  const WriterOptions options = {
      .prompts = {{"p"}, {"q"}}, .samples = 2, .include_usage = true, .return_token_ids = true};
  CompletionWriter whole = Make(options);
  CompletionWriter stream = Make(options);
  std::vector<std::string> texts(4);
  JsonValue last;
  int dones = 0;
  for (const auto& [prompt, reply] : replies) {
    whole.Keep(reply, prompt);
    for (const JsonValue& event : Parsed(stream.Events(reply, prompt))) {
      for (const JsonValue& choice : event["choices"].Elements()) {
        texts.at(*choice["index"].Unsigned()) += *choice["text"].String();
      }
      if (event.Has("usage")) last = event;
      dones += event.IsNull() ? 1 : 0;
    }
  }
  const JsonValue object = *JsonValue::Parse(whole.Whole());
  ASSERT_EQ(object["choices"].size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(object["choices"][i]["index"].Unsigned(), i) << "prompt * n + sample";
    EXPECT_EQ(object["choices"][i]["text"].String(), texts[i]);
  }
  EXPECT_THAT(texts, ::testing::ElementsAre("pa", "pb", "qx", "qy"));
  EXPECT_EQ(dones, 1);
  for (const JsonValue& answer : {object, last}) {
    EXPECT_EQ(answer["usage"]["prompt_tokens"].Integer(), 6);
    EXPECT_EQ(answer["usage"]["completion_tokens"].Integer(), 8);
    const JsonValue record = answer["usage"]["speculation"];
    EXPECT_EQ(record["rounds"].Integer(), 10);
    EXPECT_EQ(record["accepted_histogram"].Dump(), "[4,2,2,2]");
    EXPECT_EQ(record["rounds_without_draft"]["first-round"].Integer(), 2);
    EXPECT_EQ(record["rule"].String(), "coupled");
  }
}

// As evaluation harnesses score a text: one token more, which is their own to leave out.
TEST(CompletionWriter, AnEchoHasTheLogProbabilitiesOfThePrompt) {
  v1::GenerateReply prompt;
  v1::PromptLogprobs& logprobs = *prompt.mutable_prompt_logprobs();
  logprobs.set_first_position(1);
  for (const uint32_t id : {1, 2}) {
    logprobs.add_token_ids(id);
    logprobs.add_logprobs(-0.5f);
    logprobs.add_top()->add_tokens()->set_token(id);
  }
  for (const bool alone : {false, true}) {
    const WriterOptions options = {
        .prompts = {{"abc", {0, 1, 2}, {0, 1, 2}}}, .logprobs = true, .echo_alone = alone};
    CompletionWriter whole = Make(options);
    CompletionWriter stream = Make(options);
    std::string text;
    std::string offsets;
    std::string values;
    for (const auto& reply : {Started(), prompt, Delta(0, "d", {3}, true), Last(1)}) {
      whole.Keep(reply);
      for (const JsonValue& event : Parsed(stream.Events(reply))) {
        const JsonValue choice = event["choices"][0];
        text += choice["text"].String().value_or("");
        for (const JsonValue& one : choice["logprobs"]["text_offset"].Elements()) {
          offsets += one.Dump() + ",";
        }
        for (const JsonValue& one : choice["logprobs"]["token_logprobs"].Elements()) {
          values += one.Dump() + ",";
        }
      }
    }
    const JsonValue object = *JsonValue::Parse(whole.Whole());
    const JsonValue choice = object["choices"][0];
    EXPECT_EQ(choice["text"].String(), alone ? "abc" : "abcd");
    EXPECT_EQ(choice["logprobs"]["token_logprobs"].Dump(),
              alone ? "[null,-0.5,-0.5]" : "[null,-0.5,-0.5,-0.5]");
    EXPECT_TRUE(choice["logprobs"]["top_logprobs"][0].IsNull());
    EXPECT_EQ(choice["logprobs"]["text_offset"].Dump(), alone ? "[0,1,2]" : "[0,1,2,3]");
    EXPECT_EQ(choice["finish_reason"].String(), alone ? "length" : "stop");
    EXPECT_EQ(object["usage"]["completion_tokens"].Integer(), alone ? 0 : 4);
    EXPECT_EQ(text, *choice["text"].String());
    EXPECT_EQ("[" + offsets.substr(0, offsets.size() - 1) + "]",
              choice["logprobs"]["text_offset"].Dump());
    EXPECT_EQ("[" + values.substr(0, values.size() - 1) + "]",
              choice["logprobs"]["token_logprobs"].Dump());
  }
}

TEST(TextOffsets, CountCharactersThatStrayBytesBecome) {
  TextOffsets offsets([] { return std::make_unique<Letters>(); }, 10);
  std::vector<size_t> all;
  for (const uint32_t id : {0, 100, 1, 101, 100, 100, 101, 2}) all.push_back(offsets.Next(id));
  EXPECT_THAT(all, ::testing::ElementsAre(10, 11, 12, 13, 14, 15, 15, 16)) << "a?b??éc";
}

TEST(TextOffsets, OfAPromptCountSpecialNamesWhereTheTextHasThem) {
  const std::vector<uint32_t> ids = {0, 200, 100, 101, 1};
  const auto offsets = [&](absl::string_view text) {
    return PromptOffsets(
        text, ids, [] { return std::make_unique<Letters>(); },
        [](uint32_t id) { return id == 200 ? Letter(id) : std::string(); });
  };
  EXPECT_THAT(offsets("a<end>\u00e9b"), ::testing::ElementsAre(0, 1, 6, 6, 7));
  EXPECT_THAT(offsets("a\u00e9b"), ::testing::ElementsAre(0, 1, 1, 1, 2));
}

TEST(CompletionWriter, TextRunsHaveTheirText) {
  const auto with_runs = [](const std::string& text, std::vector<std::pair<uint32_t, bool>> runs) {
    v1::GenerateReply reply = Delta(0, text, {1});
    for (const auto& [bytes, accepted] : runs) {
      v1::TextRun& run = *reply.mutable_delta()->add_text_runs();
      run.set_bytes(bytes);
      run.set_accepted(accepted);
    }
    return reply;
  };
  const v1::GenerateReply one = with_runs("aé", {{1, false}, {2, true}});
  const v1::GenerateReply two = with_runs("bc", {{1, true}, {1, false}});
  CompletionWriter stream = Make({.text_runs = true});
  stream.Events(Started());
  EXPECT_EQ(Parsed(stream.Events(one))[0]["choices"][0]["text_runs"].Dump(),
            R"([{"text":"a","accepted":false},{"text":"é","accepted":true}])");
  CompletionWriter whole = Make({.prompts = {{"so: "}}, .text_runs = true});
  for (const v1::GenerateReply& reply : {Started(), one, two, Last(1)}) whole.Keep(reply);
  EXPECT_EQ((*JsonValue::Parse(whole.Whole()))["choices"][0]["text_runs"].Dump(),
            R"([{"text":"a","accepted":false},{"text":"éb","accepted":true},)"
            R"({"text":"c","accepted":false}])");
  CompletionWriter without = Make({});
  without.Events(Started());
  EXPECT_FALSE(Parsed(without.Events(one))[0]["choices"][0].Has("text_runs"));
}

}  // namespace
}  // namespace tandem::orchestrator
