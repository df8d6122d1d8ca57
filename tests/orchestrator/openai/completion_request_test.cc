// Bodies of /v1/completions: what they become, and how what is wrong in them is named.
#include "orchestrator/openai/completion_request.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/messages/request_options.h"
#include "orchestrator/generate/invalid.h"
#include "orchestrator/openai/error.h"
#include "orchestrator/openai/json_shape.h"

namespace tandem::orchestrator::completion_request_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<CompletionRequest> Parse(absl::string_view body) {
  TANDEM_ASSIGN_OR_RETURN(const base::JsonValue json, ParseBody(body));
  return ParseCompletion(json);
}

// A good body with these members besides the prompt.
CompletionRequest Good(absl::string_view members) {
  const std::string comma = members.empty() ? "" : ",";
  absl::StatusOr<CompletionRequest> parsed =
      Parse(absl::StrCat(R"({"prompt": "x")", comma, members, "}"));
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? *parsed : CompletionRequest();
}

// The field that an error names.
std::string Wrong(absl::string_view members) {
  const auto parsed = Parse(absl::StrCat(R"({"prompt": "x",)", members, "}"));
  if (parsed.ok()) return "nothing";
  const ApiError error = ToApiError(parsed.status());
  EXPECT_EQ(error.code, 400);
  EXPECT_THAT(error.message, HasSubstr(error.param));
  return error.param;
}

TEST(CompletionRequest, HasOpenAisDefaults) {
  const CompletionRequest request = Good("");
  EXPECT_EQ(request.wire.text(), "x");
  EXPECT_EQ(request.wire.max_tokens(), 16u);
  EXPECT_TRUE(request.wire.fit_max_tokens()) << "a default is nobody's wish";
  EXPECT_FALSE(Good(R"("max_tokens": 16)").wire.fit_max_tokens());
  EXPECT_FALSE(request.stream || request.logprobs || request.echo || request.include_usage);
  EXPECT_FALSE(request.wire.has_seed() || request.wire.has_logprobs());
  EXPECT_FALSE(request.wire.sampling().has_temperature()) << "the model's own";
}

TEST(CompletionRequest, CarriesEveryOption) {
  const CompletionRequest request = Good(R"(
      "model": "m", "max_tokens": 7, "n": 4, "seed": 12, "stop": ["a", "b"], "temperature": 0.5,
      "top_p": 0.9, "top_k": 5, "min_p": 0.1, "min_tokens": 2, "presence_penalty": 1,
      "frequency_penalty": -1, "repetition_penalty": 1.5, "logit_bias": {"3": -100, "4": 1.5},
      "logprobs": 2, "ignore_eos": true, "stop_token_ids": [8], "allowed_token_ids": [1, 2],
      "stream": true, "stream_options": {"include_usage": true}, "return_token_ids": true,
      "user": "somebody", "suffix": null, "best_of": 4,
      "tandem": {"priority": 3, "cache_scope": "a", "timeout": 2.5, "rule": "block", "draft_tokens": 3,
                 "drafter": "model", "proposal": "greedy", "draft_temperature": 1,
                 "draft_min_confidence": 0.25,
                 "banned_token_ids": [9], "processed_logprobs": true})");
  EXPECT_EQ(request.model, "m");
  v1::GenerateRequest expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(text: "x" max_tokens: 7 samples: 4 seed: 12 user: "somebody" priority: 3 cache_scope: "a"
         stop { strings: ["a", "b"] token_ids: 8 ignore_eos: true }
         logprobs { top: 2 processed: true }
         sampling {
           temperature: 0.5 top_p: 0.9 top_k: 5 min_p: 0.1 min_tokens: 2 presence_penalty: 1
           frequency_penalty: -1 repetition_penalty: 1.5
           logit_bias { token: 3 bias: -100 } logit_bias { token: 4 bias: 1.5 }
           allowed_token_ids: [1, 2] banned_token_ids: 9
         }
         speculation {
           rule: RULE_BLOCK fixed: 3 drafter: "model" proposal: PROPOSAL_GREEDY draft_temperature: 1
           draft_min_confidence: 0.25
         })",
      &expected));
  EXPECT_EQ(request.wire.DebugString(), expected.DebugString());
  EXPECT_TRUE(request.stream && request.include_usage && request.return_token_ids);
  EXPECT_EQ(request.timeout, absl::Milliseconds(2500));
}

TEST(CompletionRequest, TakesOneDrafterOrSeveral) {
  const auto speculation = [](const std::string& drafter) {
    return Good(absl::StrCat(R"("tandem": {"drafter": ")", drafter, R"("})")).wire.speculation();
  };
  EXPECT_EQ(speculation("auto").drafter(), "auto");
  EXPECT_TRUE(speculation("model").drafters().empty());
  EXPECT_EQ(speculation("model,prompt-lookup").drafter(), "");
  EXPECT_THAT(speculation("model,prompt-lookup").drafters(), ElementsAre("model", "prompt-lookup"));
}

TEST(CompletionRequest, TakesPromptsInAllForms) {
  EXPECT_EQ(Parse(R"({"prompt": ["one"]})")->wire.text(), "one");
  EXPECT_THAT(Parse(R"({"prompt": [1, 2]})")->wire.ids().ids(), ElementsAre(1u, 2u));
  EXPECT_THAT(Parse(R"({"prompt": [[3, 4]]})")->wire.ids().ids(), ElementsAre(3u, 4u));
  for (const char* body :
       {R"({})", R"({"prompt": null})", R"({"prompt": 5})", R"({"prompt": {}})",
        R"({"prompt": [1, -2]})", R"({"prompt": [1.5]})", R"({"prompt": [4294967296]})"}) {
    const auto parsed = Parse(body);
    ASSERT_FALSE(parsed.ok()) << body;
    EXPECT_EQ(ToApiError(parsed.status()).param, "prompt") << body;
  }
}

TEST(CompletionRequest, TakesSeveralPrompts) {
  const auto several = Parse(R"({"prompt": ["a", [1, 2], "c"], "n": 2})");
  ASSERT_TRUE(several.ok()) << several.status();
  EXPECT_EQ(several->wire.text(), "a");
  ASSERT_EQ(several->others.size(), 2u);
  EXPECT_THAT(several->others[0].ids().ids(), ElementsAre(1u, 2u));
  EXPECT_EQ(several->others[1].text(), "c");
  EXPECT_EQ(Parse(R"({"prompt": [[1], [2]]})")->others.size(), 1u);
  const auto wrong = [](absl::string_view prompt) {
    const auto parsed = Parse(absl::StrCat(R"({"prompt": )", prompt, "}"));
    return parsed.ok() ? "nothing" : ToApiError(parsed.status()).param;
  };
  EXPECT_EQ(wrong(R"(["a", 1])"), "prompt[1]");
  EXPECT_EQ(wrong(R"(["a", ["b"]])"), "prompt[1]");
  EXPECT_EQ(wrong("[true]"), "prompt[0]");
  EXPECT_EQ(wrong(R"([[1], [2, -1]])"), "prompt[1]");
  const auto many = [](size_t count) {
    std::vector<std::string> texts(count, R"("a")");
    return absl::StrCat("[", absl::StrJoin(texts, ","), "]");
  };
  EXPECT_EQ(wrong(many(64)), "nothing");
  EXPECT_EQ(wrong(many(65)), "prompt");
}

// As evaluation harnesses score a text.
TEST(CompletionRequest, AnEchoWithLogProbabilitiesAsksForThoseOfThePrompt) {
  const CompletionRequest scored = Good(R"("echo": true, "logprobs": 1, "max_tokens": 1)");
  EXPECT_TRUE(scored.echo && scored.logprobs && scored.wire.logprobs().prompt());
  EXPECT_FALSE(scored.echo_alone);
  EXPECT_FALSE(Good(R"("logprobs": 1)").wire.logprobs().prompt());
  const CompletionRequest alone = Good(R"("echo": true, "logprobs": 1, "max_tokens": 0)");
  EXPECT_TRUE(alone.echo_alone);
  EXPECT_EQ(alone.wire.max_tokens(), 1u);
  EXPECT_FALSE(alone.wire.fit_max_tokens());
}

TEST(CompletionRequest, TakesSeedsOf64Bits) {
  EXPECT_EQ(Good(R"("seed": 18446744073709551615)").wire.seed(), UINT64_MAX);
  EXPECT_EQ(Good(R"("seed": "18446744073709551615")").wire.seed(), UINT64_MAX);
  EXPECT_EQ(Good(R"("seed": -1)").wire.seed(), UINT64_MAX);
  EXPECT_TRUE(Good(R"("seed": 0)").wire.has_seed());
  EXPECT_EQ(Wrong(R"("seed": 1.5)"), "seed");
}

TEST(CompletionRequest, NamesTheFieldThatIsWrong) {
  EXPECT_EQ(Wrong(R"("temperature": "hot")"), "temperature");
  EXPECT_EQ(Wrong(R"("max_tokens": 0)"), "max_tokens");
  EXPECT_EQ(Wrong(R"("n": 17)"), "n");
  EXPECT_EQ(Wrong(R"("n": 1.5)"), "n");
  EXPECT_EQ(Wrong(R"("stop": [1])"), "stop");
  EXPECT_EQ(Wrong(R"("logprobs": 21)"), "logprobs");
  EXPECT_EQ(Wrong(R"("logit_bias": {"x": 1})"), "logit_bias");
  EXPECT_EQ(Wrong(R"("logit_bias": {"1": "x"})"), "logit_bias");
  EXPECT_EQ(Wrong(R"("stream": 1)"), "stream");
  EXPECT_EQ(Wrong(R"("stream_options": {"include_usage": true})"), "stream_options");
  EXPECT_EQ(Wrong(R"("stream": true, "stream_options": {"more": 1})"), "stream_options.more");
  EXPECT_EQ(Wrong(R"("tandem": {"priority": -1})"), "tandem.priority");
  EXPECT_EQ(Wrong(R"("tandem": {"rule": "unspecified"})"), "tandem.rule");
  EXPECT_EQ(Parse(R"({"prompt": "x", "tandem": {"rule": "gready"}})").status().message(),
            "tandem.rule is none of greedy, speculative, block, coupled, lenient; did you mean "
            "greedy?");
  EXPECT_EQ(Wrong(R"("tandem": {"timeout": 0})"), "tandem.timeout");
  EXPECT_EQ(Wrong(R"("tandem": {"draft_tokens": "few"})"), "tandem.draft_tokens");
  EXPECT_EQ(Wrong(R"("tandem": {"length_policy": "best"})"), "tandem.length_policy");
  EXPECT_EQ(Wrong(R"("tandem": {"processed_logprobs": true})"), "tandem.processed_logprobs");
  EXPECT_EQ(Wrong(R"("tandem": 1)"), "tandem");
}

// Whatever the table of options has a name for over HTTP, as the option's type is written in JSON.
TEST(CompletionRequest, ReadsEveryOptionOfTheTable) {
  const std::map<std::string, std::string> own_form = {{"tandem.draft_tokens", "3"},
                                                       {"tandem.drafter", R"("model")"},
                                                       {"logit_bias", R"({"1": 2})"},
                                                       {"stop", R"("x")"},
                                                       {"logprobs", "1"},
                                                       {"n", "2"}};
  for (const messages::RequestOption& option : messages::RequestOptions()) {
    using messages::OptionType;
    std::string name(option.json);
    if (name.empty()) continue;
    const auto own = own_form.find(name);
    const OptionType type = option.type();
    const std::string value = own != own_form.end()         ? own->second
                              : type == OptionType::kSwitch ? "true"
                              : type == OptionType::kText   ? R"("text")"
                              : type == OptionType::kIds    ? "[5]"
                              : type == OptionType::kChoice
                                  ? absl::StrCat("\"", option.choices()[0], "\"")
                                  : "1";
    std::string member = absl::StrCat("\"", name, "\": ", value);
    if (absl::StartsWith(name, "tandem.")) {
      member = absl::StrCat(R"("tandem": {")", name.substr(7), "\": ", value, "}");
    }
    const v1::GenerateRequest with = Good(member).wire;
    EXPECT_NE(with.SerializeAsString(), Good("").wire.SerializeAsString()) << member;
  }
}

TEST(CompletionRequest, RefusesWhatItDoesNotServe) {
  EXPECT_EQ(Wrong(R"("best_of": 3)"), "best_of");
  EXPECT_EQ(Wrong(R"("suffix": "the end")"), "suffix");
  EXPECT_EQ(Wrong(R"("response_format": {"type": "json_object"})"), "response_format");
  EXPECT_EQ(Wrong(R"("guided_json": {})"), "guided_json");
  EXPECT_EQ(Wrong(R"("skip_special_tokens": false)"), "skip_special_tokens");
  EXPECT_EQ(Wrong(R"("priority": 1)"), "priority");
  EXPECT_EQ(Wrong(R"("temprature": 1)"), "temprature");
  EXPECT_EQ(Wrong(R"("temprature": null)"), "nothing") << "null is as good as absent";
  EXPECT_EQ(Wrong(R"("response_format": {"type": "text"})"), "nothing");
}

TEST(CompletionRequest, SaysWhichParameterMayHaveBeenMeant) {
  const auto said = [](absl::string_view body) {
    const ApiError error = ToApiError(Parse(body).status());
    EXPECT_EQ(error.name, "unknown_parameter");
    return error.message;
  };
  EXPECT_EQ(said(R"({"prompt": "x", "max_token": 3})"),
            "unknown parameter 'max_token' (did you mean 'max_tokens'?)");
  EXPECT_EQ(said(R"({"promt": "x"})"), "unknown parameter 'promt' (did you mean 'prompt'?)");
  EXPECT_EQ(said(R"({"prompt": "x", "tandem": {"draft_token": 1}})"),
            "unknown parameter 'tandem.draft_token' (did you mean 'tandem.draft_tokens'?)");
  EXPECT_EQ(said(R"({"prompt": "x", "draft_tokens": 1})"),
            "unknown parameter 'draft_tokens' (did you mean 'tandem.draft_tokens'?)");
  EXPECT_EQ(said(R"({"prompt": "x", "stream": true, "stream_options": {"include_usages": true}})"),
            "unknown parameter 'stream_options.include_usages' (did you mean "
            "'stream_options.include_usage'?)");
  EXPECT_EQ(said(R"({"prompt": "x", "guided_jsons": 1})"), "unknown parameter 'guided_jsons'")
      << "what is not served is no help";
  EXPECT_EQ(said(absl::StrCat(R"({"prompt": "x", ")", std::string(1000, 'q'), R"(": 1})")),
            absl::StrCat("unknown parameter '", std::string(64, 'q'), "'"));
}

TEST(CompletionRequest, RefusesANameThatComesTwice) {
  const auto refused = [](absl::string_view body) {
    const ApiError error = ToApiError(Parse(body).status());
    EXPECT_THAT(error.message, HasSubstr(absl::StrCat("'", error.param, "' twice")));
    return error.param;
  };
  EXPECT_EQ(refused(R"({"prompt": "x", "temperature": 0, "temperature": 1})"), "temperature");
  EXPECT_EQ(refused(R"({"prompt": "x", "n": 1, "n": 1})"), "n") << "also the same value";
  EXPECT_EQ(refused(R"({"prompt": "x", "tandem": {"rule": "block", "rule": "greedy"}})"), "rule");
  EXPECT_EQ(refused(R"({"prompt": "x", "logit_bias": {"3": 1, "\u0033": 2}})"), "3");
}

TEST(CompletionRequest, RefusesBodiesThatAreNoObject) {
  for (const std::string body :
       {"", "[", "[]", "1", "{\"prompt\": \"\xff\"}", "{\"prompt\": \"a\"} x"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Parse(body).status())) << body;
  }
  const std::string deep = std::string(33, '[') + std::string(33, ']');
  EXPECT_THAT(Parse(deep).status().message(), HasSubstr("nested"));
  EXPECT_TRUE(
      ParseBody(absl::StrCat("{\"a\":", std::string(31, '['), std::string(31, ']'), "}")).ok());
  EXPECT_THAT(Parse("{\"prompt\": [" + std::string(600'000, ',') + "]}").status().message(),
              HasSubstr("memory"));
}

TEST(CompletionRequest, NamesFieldsOfTheGeneratorAsOpenAiDoes) {
  const auto shown = [](absl::string_view message, const FieldNames& names = {}) {
    return ToApiError(absl::InvalidArgumentError(message), names);
  };
  EXPECT_EQ(shown("sampling.temperature is 101; it must be").param, "temperature");
  EXPECT_EQ(shown("sampling.temperature is 101; it must be").message,
            "temperature is 101; it must be");
  EXPECT_EQ(shown("samples is 17; it").param, "n");
  EXPECT_EQ(shown("user has 300 bytes").param, "user");
  EXPECT_EQ(shown("token_ids[3] is 5").param, "tokens") << "of /detokenize";
  EXPECT_EQ(shown("stop.strings[3] has 2000 bytes").param, "stop");
  EXPECT_EQ(shown("stop.token_ids[0] is 5").param, "stop_token_ids");
  EXPECT_EQ(shown("speculation.fixed is 20").param, "tandem.draft_tokens");
  EXPECT_EQ(shown("speculation.drafter is \"x\"").param, "tandem.drafter");
  EXPECT_EQ(shown("max_tokens is 9; after").param, "max_tokens");
  EXPECT_EQ(shown("text is empty: a prompt").message, "prompt is empty: a prompt");
  EXPECT_EQ(shown("ids.ids[0] is 5", {.prompt = "messages"}).param, "messages");
  EXPECT_EQ(shown("the prompt has 70 tokens").param, "prompt");
  EXPECT_EQ(shown("the model has no such thing").param, "");
  // Also the fields that a message names besides.
  EXPECT_EQ(shown("speculation.leniency is missing: RULE_LENIENT needs it").message,
            "tandem.leniency is missing: lenient needs it");
  EXPECT_EQ(shown("speculation.draft_nodes is 4, but speculation.fixed is 0: there").message,
            "tandem.draft_nodes is 4, but tandem.draft_tokens is 0: there");
  const FieldNames chat = {.prompt = "messages", .max_tokens = "max_completion_tokens"};
  EXPECT_EQ(shown("sampling.min_tokens is 20; it must be 0 to max_tokens, 16", chat).message,
            "min_tokens is 20; it must be 0 to max_completion_tokens, 16");
}

TEST(CompletionRequest, AnExceededContextHasOpenAisCodeAndTheClientsField) {
  for (const char* field : {"max_tokens", "max_completion_tokens"}) {
    const ApiError error = ToApiError(ContextExceeded("max_tokens is 9, and ", ContextWords(8)),
                                      {.prompt = "messages", .max_tokens = field});
    EXPECT_EQ(error.param, field);
    EXPECT_EQ(error.name, "context_length_exceeded");
    EXPECT_EQ(error.message,
              absl::StrCat(field,
                           " is 9, and this model's maximum context length is 8 tokens "
                           "(context_length_exceeded)"));
  }
  const ApiError error = ToApiError(ContextExceeded("the prompt has 9 tokens"),
                                    {.prompt = "messages", .max_tokens = "max_completion_tokens"});
  EXPECT_EQ(error.param, "messages");
  EXPECT_EQ(error.name, "context_length_exceeded");
}

TEST(CompletionRequest, StatusesHaveTheirCodes) {
  const auto code = [](absl::Status status) { return ToApiError(status).code; };
  EXPECT_EQ(code(absl::UnauthenticatedError("")), 401);
  EXPECT_EQ(code(ModelNotFound("a", "b")), 404);
  EXPECT_EQ(code(absl::ResourceExhaustedError("")), 429);
  EXPECT_EQ(code(absl::InternalError("")), 500);
  EXPECT_EQ(code(absl::UnavailableError("")), 503);
  EXPECT_EQ(code(absl::DeadlineExceededError("")), 504);
  EXPECT_EQ(ErrorJson(ToApiError(ModelNotFound("a", "b"))),
            R"({"error":{"message":"model \"a\" is not served: there is \"b\"",)"
            R"("type":"invalid_request_error","param":"model","code":"model_not_found"}})");
}

// Any text as a body: refused, or a request.
TEST(CompletionRequest, TakesAnyBytes) {
  const std::string seed =
      R"({"prompt":["a"],"n":2,"stop":["x"],"logit_bias":{"1":2},"stream":true,)"
      R"("stream_options":{"include_usage":true},"tandem":{"rule":"block"}})";
  constexpr absl::string_view kBytes = "{}[]\",:0-1eE.\\u\xc3\x80 ntf";
  std::mt19937 random(20);
  int good = 0;
  for (int i = 0; i < 10000; ++i) {
    std::string body = seed;
    for (size_t changes = random() % 4; changes > 0; --changes) {
      const size_t at = random() % body.size();
      if (random() % 2 == 0) {
        body[at] = kBytes[random() % kBytes.size()];
      } else {
        body.erase(at, 1 + random() % 4);
      }
    }
    const auto parsed = Parse(body);
    good += parsed.ok() ? 1 : 0;
    if (!parsed.ok()) {
      EXPECT_EQ(ToApiError(parsed.status()).code, 400) << body;
    }
  }
  EXPECT_GT(good, 1000);
}

}  // namespace
}  // namespace tandem::orchestrator::completion_request_test
