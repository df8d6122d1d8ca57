// Bodies of /v1/chat/completions, and the answers to them.
#include "orchestrator/openai/chat_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/http/reply.h"
#include "common/messages/status_details.h"
#include "orchestrator/openai/completion_writer.h"
#include "orchestrator/openai/error.h"

namespace tandem::orchestrator {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::StatusOr<ChatRequest> Parse(absl::string_view body) {
  TANDEM_ASSIGN_OR_RETURN(const base::JsonValue json, ParseBody(body));
  return ParseChat(json);
}

constexpr char kUser[] = R"("messages": [{"role": "user", "content": "hi"}])";

std::string Wrong(absl::string_view members) {
  const auto parsed = Parse(absl::StrCat("{", members, "}"));
  return parsed.ok() ? "nothing" : ToApiError(parsed.status()).param;
}

TEST(ChatRequest, CarriesAConversation) {
  const auto parsed = Parse(R"({"messages": [
      {"role": "system", "content": "be brief"},
      {"role": "user", "name": "me", "content": [{"type": "text", "text": "a"},
                                                 {"type": "text", "text": "b"}]},
      {"role": "assistant", "content": null, "refusal": null, "reasoning_content": "hm",
       "tool_calls": [{"id": "1", "type": "function",
                       "function": {"name": "f", "arguments": "{\"x\": 1}"}}]},
      {"role": "tool", "tool_call_id": "1", "content": "2"}],
      "max_completion_tokens": 5, "logprobs": true, "top_logprobs": 2, "n": 2, "seed": 3,
      "chat_template_kwargs": {"enable_thinking": false}, "add_generation_prompt": false,
      "tools": [{"type": "function"}], "tool_choice": "none", "parallel_tool_calls": true})");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const v1::GenerateRequest& wire = parsed->completion.wire;
  const Conversation& conversation = parsed->conversation;
  const auto messages = base::JsonValue::Parse(conversation.messages);
  ASSERT_TRUE(messages.ok());
  ASSERT_EQ(messages->size(), 4u);
  EXPECT_EQ((*messages)[1]["content"][1]["text"].String(), "b");
  EXPECT_EQ((*messages)[2]["tool_calls"][0]["function"]["name"].String(), "f");
  EXPECT_EQ(conversation.arguments, R"({"enable_thinking":false})");
  EXPECT_FALSE(conversation.add_generation_prompt);
  EXPECT_EQ(conversation.tools, R"([{"type":"function"}])");
  EXPECT_EQ(wire.max_tokens(), 5u);
  EXPECT_EQ(wire.samples(), 2u);
  EXPECT_TRUE(parsed->completion.logprobs);
  EXPECT_EQ(wire.logprobs().top(), 2u);
}

TEST(ChatRequest, TakesAllTheRoomWhenNoLimitIsSaid) {
  EXPECT_EQ(Parse(absl::StrCat("{", kUser, "}"))->completion.wire.max_tokens(), 0u);
  EXPECT_EQ(Parse(absl::StrCat("{", kUser, R"(, "max_tokens": 3})"))->completion.wire.max_tokens(),
            3u);
  EXPECT_EQ(Parse(absl::StrCat("{", kUser, R"(, "max_tokens": 3})"))->completion.names.max_tokens,
            "max_tokens");
  EXPECT_EQ(Parse(absl::StrCat("{", kUser, R"(, "max_completion_tokens": 3})"))
                ->completion.names.max_tokens,
            "max_completion_tokens");
}

TEST(ChatRequest, NamesWhatIsWrong) {
  EXPECT_EQ(Wrong(""), "messages");
  EXPECT_EQ(Wrong(R"("messages": [])"), "messages");
  EXPECT_EQ(Wrong(R"("messages": ["hi"])"), "messages");
  EXPECT_EQ(Wrong(R"("messages": [{"content": "hi"}])"), "messages[0].role");
  EXPECT_EQ(Wrong(R"("messages": [{"role": "user", "content": 1}])"), "messages[0].content");
  EXPECT_EQ(Wrong(R"("messages": [{"role": "user", "content": [{"type": "image_url"}]}])"),
            "messages[0].content[0]");
  EXPECT_EQ(Wrong(R"("messages": [{"role": "user", "colour": 1}])"), "messages[0].colour");
  EXPECT_EQ(Wrong(R"("messages": [{"role": "assistant", "tool_calls": [{"function": {
      "name": "f", "arguments": "{\"x\": 1, \"x\": 2}"}}]}])"),
            "messages[0].tool_calls[0].function.arguments");
  EXPECT_EQ(Wrong(absl::StrCat(kUser, R"(, "prompt": "x")")), "prompt");
  EXPECT_EQ(Wrong(absl::StrCat(kUser, R"(, "tools": [{}])")), "tools");
  EXPECT_EQ(Wrong(absl::StrCat(kUser, R"(, "tool_choice": "required")")), "tool_choice");
  EXPECT_EQ(Wrong(absl::StrCat(kUser, R"(, "top_logprobs": 2)")), "top_logprobs");
  EXPECT_EQ(Wrong(absl::StrCat(kUser, R"(, "logprobs": 2)")), "logprobs");
  EXPECT_EQ(Wrong(absl::StrCat(kUser, R"(, "max_tokens": 3, "max_completion_tokens": 4)")),
            "max_tokens");
  EXPECT_EQ(Wrong(absl::StrCat(kUser, R"(, "response_format": {"type": "json_schema"})")),
            "response_format");
  for (const char* modalities : {R"(["text", "audio"])", R"(["audio"])", "[]", R"("text")"}) {
    EXPECT_EQ(Wrong(absl::StrCat(kUser, R"(, "modalities": )", modalities)), "modalities");
  }
  EXPECT_EQ(Wrong(absl::StrCat(kUser, R"(, "modalities": ["text"])")), "nothing");
  EXPECT_EQ(Wrong(R"("messages": [{"role": "user", "content": "x", "type": "text"}])"), "nothing");
  EXPECT_EQ(Wrong(R"("messages": [{"role": "user", "content": "x", "type": "image"}])"),
            "messages[0].type");
  EXPECT_EQ(Wrong(absl::StrCat(kUser, R"(, "reasoning_effort": 1)")), "reasoning_effort");
  EXPECT_EQ(Wrong(absl::StrCat(kUser, R"(, "reasoning_effort": "low{{ x }}")")),
            "reasoning_effort");
  EXPECT_EQ(Wrong(absl::StrCat(kUser, R"(, "reasoning_effort": "low",
                  "chat_template_kwargs": {"reasoning_effort": "high"})")),
            "reasoning_effort");
}

TEST(ChatRequest, SaysWhichParameterMayHaveBeenMeant) {
  const auto said = [](absl::string_view body) {
    return std::string(Parse(body).status().message());
  };
  EXPECT_EQ(said(R"({"message": []})"), "unknown parameter 'message' (did you mean 'messages'?)");
  EXPECT_EQ(said(R"({"messages": [{"rol": "user", "content": "x"}]})"),
            "unknown parameter 'messages[0].rol' (did you mean 'messages[0].role'?)");
  EXPECT_EQ(said(R"({"messages": [{"role": "user", "contents": "x"}]})"),
            "unknown parameter 'messages[0].contents' (did you mean 'messages[0].content'?)");
}

TEST(ChatRequest, CarriesOptionsThatATemplateMayKnow) {
  const auto parsed =
      Parse(absl::StrCat("{", kUser, R"(, "reasoning_effort": "low", "verbosity": "high"})"));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->conversation.options,
              ::testing::ElementsAre(::testing::Pair("reasoning_effort", "low"),
                                     ::testing::Pair("verbosity", "high")));
}

TEST(ApiErrors, NameWhatTheTemplateFoundWrong) {
  for (const auto& [said, param] :
       {std::pair<const char*, const char*>{"messages[2].role: \"x\" is", "messages[2].role"},
        {"template_arguments: tools has a field of its own", "chat_template_kwargs"}}) {
    const ApiError error = ToApiError(absl::InvalidArgumentError(said));
    EXPECT_EQ(error.param, param);
    EXPECT_THAT(error.message, StartsWith(param));
  }
}

TEST(ApiErrors, SayWhenToAskAgain) {
  absl::Status status = absl::ResourceExhaustedError("full");
  const auto head = [&] {
    return http::HeadText(ErrorResponse(ToApiError(status)), /*framing=*/"", /*keep_alive=*/true);
  };
  EXPECT_THAT(head(), HasSubstr("Retry-After: 1\r\n"));
  messages::AddRetryInfo(absl::Milliseconds(8500), status);
  EXPECT_THAT(head(), HasSubstr("Retry-After: 9\r\n"));
}

TEST(ChatRequest, IsAnsweredAsAMessageOrAsDeltas) {
  const auto make = [] {
    return CompletionWriter({.model = "m", .logprobs = true}, ChatForm([](uint32_t id) {
                              return std::string(1, static_cast<char>('a' + id));
                            }));
  };
  v1::GenerateReply started;
  started.mutable_started()->set_request_id("id");
  v1::GenerateReply delta;
  delta.mutable_delta()->set_text("b");
  delta.mutable_delta()->add_token_ids(1);
  delta.mutable_delta()->add_logprobs(-0.5);
  v1::GenerateReply last;
  last.mutable_last()->add_samples()->set_finish_reason(v1::FINISH_REASON_STOP);
  CompletionWriter stream = make();
  EXPECT_THAT(stream.Events(started), HasSubstr(R"("delta":{"role":"assistant","content":""})"));
  const std::string event = stream.Events(delta);
  EXPECT_THAT(event, HasSubstr(R"("object":"chat.completion.chunk")"));
  EXPECT_THAT(event, HasSubstr(R"("delta":{"content":"b"})"));
  EXPECT_THAT(event, HasSubstr(R"({"token":"b","logprob":-0.5,"bytes":[98],"top_logprobs":[]})"));
  EXPECT_THAT(stream.Events(last), HasSubstr(R"("delta":{})"));
  CompletionWriter whole = make();
  for (const v1::GenerateReply& reply : {started, delta, last}) whole.Keep(reply);
  EXPECT_THAT(whole.Whole(), HasSubstr(R"("id":"chatcmpl-id","object":"chat.completion")"));
  EXPECT_THAT(whole.Whole(), HasSubstr(R"("message":{"role":"assistant","content":"b")"));
}

}  // namespace
}  // namespace tandem::orchestrator
