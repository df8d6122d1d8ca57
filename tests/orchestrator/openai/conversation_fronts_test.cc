// A conversation has the same prompt over HTTP and over gRPC: that of transformers
// (tests/common/tokenizer/chat_goldens).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/tokenizer/chat_template.h"
#include "common/tokenizer/tokenizer.h"
#include "nlohmann/json.hpp"
#include "orchestrator/generate/encode_conversation.h"
#include "orchestrator/openai/chat_ids.h"
#include "orchestrator/openai/chat_request.h"
#include "orchestrator/openai/completion_request.h"
#include "orchestrator/openai/token_routes.h"
#include "tests/support/paths.h"

namespace tandem::orchestrator::conversation_fronts_test {
namespace {

using Json = nlohmann::ordered_json;
using Ids = std::vector<uint32_t>;

std::string ReadFile(const std::string& path) {
  std::ifstream file(tandem::testing::SourcePath(path), std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

constexpr char kGoldens[] = "tests/common/tokenizer/chat_goldens/";

struct Model {
  explicit Model(const Json& family) {
    Json json = Json::parse(ReadFile(family["base"] == "demo"
                                         ? "demo/target/tokenizer.json"
                                         : absl::StrCat(kGoldens, "byte_fallback.json")));
    for (const Json& token : family["added_tokens"]) json["added_tokens"].push_back(token);
    auto read = tokenizer::Tokenizer::FromJson(json.dump());
    EXPECT_TRUE(read.ok()) << read.status();
    tokenizer = *std::move(read);
    const std::string name = family["family"];
    auto chat = tokenizer::ChatTemplate::FromText(
        family["special_tokens"].dump(),
        ReadFile(absl::StrCat(kGoldens, "templates/", name, ".jinja")), *tokenizer);
    EXPECT_TRUE(chat.ok()) << chat.status();
    chat_template = *std::move(chat);
  }

  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;
  std::unique_ptr<tokenizer::ChatTemplate> chat_template;
};

base::JsonValue Body(const Json& golden) {
  Json body;
  for (const char* name : {"messages", "tools", "add_generation_prompt"}) {
    if (golden.contains(name)) body[name] = golden[name];
  }
  if (golden.contains("arguments")) body["chat_template_kwargs"] = golden["arguments"];
  // OpenAI's packages send a call's arguments as a text.
  for (Json& message : body["messages"]) {
    if (!message.contains("tool_calls") || message["tool_calls"].is_null()) continue;
    for (Json& call : message["tool_calls"]) {
      call["function"]["arguments"] = call["function"]["arguments"].dump();
    }
  }
  return *ParseBody(body.dump());
}

absl::StatusOr<Ids> OverTokenize(const Model& model, const base::JsonValue& body) {
  const auto parsed = ParseTokenize(body, "");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return ChatIds(*parsed->conversation, model.chat_template.get(), 0, 0);
}

absl::StatusOr<Ids> OverChat(const Model& model, const Json& golden) {
  std::string text = Body(golden).Dump();
  text.insert(1, R"("tool_choice":"none",)");
  const auto parsed = ParseChat(*ParseBody(text));
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return ChatIds(parsed->conversation, model.chat_template.get(), 0, 0);
}

absl::StatusOr<Ids> OverGrpc(const Model& model, const Json& golden) {
  v1::Conversation conversation;
  const auto text = [](const Json& object, const char* name) {
    return object.contains(name) && object[name].is_string() ? object[name].get<std::string>()
                                                             : std::string();
  };
  for (const Json& one : golden["messages"]) {
    v1::ChatMessage& message = *conversation.add_messages();
    message.set_role(one["role"].get<std::string>());
    if (one["content"].is_string()) message.set_content(one["content"].get<std::string>());
    if (one["content"].is_array()) {
      for (const Json& part : one["content"]) {
        message.add_content_parts(part["text"].get<std::string>());
      }
    }
    for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
      if (const std::string said = text(one, name); !said.empty()) {
        message.set_reasoning_content(said);
        break;
      }
    }
    message.set_tool_call_id(text(one, "tool_call_id"));
    if (!one.contains("tool_calls") || one["tool_calls"].is_null()) continue;
    for (const Json& its : one["tool_calls"]) {
      v1::ToolCall& call = *message.add_tool_calls();
      call.set_id(its["id"].get<std::string>());
      call.set_name(its["function"]["name"].get<std::string>());
      call.set_arguments(its["function"]["arguments"].dump());
    }
  }
  if (golden.contains("tools")) {
    for (const Json& tool : golden["tools"]) conversation.add_tools(tool.dump());
  }
  if (golden.contains("arguments")) {
    conversation.set_template_arguments(golden["arguments"].dump());
  }
  if (golden.contains("add_generation_prompt")) {
    conversation.set_add_generation_prompt(golden["add_generation_prompt"].get<bool>());
  }
  return EncodeConversation(*model.chat_template, conversation);
}

TEST(ConversationFronts, IdsAreThoseOfTransformers) {
  const Json goldens = Json::parse(ReadFile(absl::StrCat(kGoldens, "goldens.json")));
  int compared = 0;
  for (const Json& family : goldens["families"]) {
    const Model model(family);
    for (const Json& golden : family["cases"]) {
      SCOPED_TRACE(absl::StrCat(family["family"].get<std::string>(), " ",
                                golden["name"].get<std::string>()));
      if (!golden.contains("ids") || golden.contains("left_out")) continue;
      if (absl::StrContains(golden["text"].get<std::string>(), "2024")) continue;  // the date
      const Ids ids = golden["ids"];
      EXPECT_EQ(OverTokenize(model, Body(golden)).value_or(Ids()), ids);
      EXPECT_EQ(OverChat(model, golden).value_or(Ids()), ids);
      EXPECT_EQ(OverGrpc(model, golden).value_or(Ids()), ids);
      ++compared;
    }
  }
  EXPECT_GT(compared, 60);
}

// Names stand as the client wrote them wherever a template sees an object, also among many.
TEST(ConversationFronts, NamesKeepTheirOrder) {
  auto tokenizer = tokenizer::Tokenizer::Load(tandem::testing::SourcePath("demo/target"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  auto chat = tokenizer::ChatTemplate::FromText(
      "{}",
      "{{ messages[0].tool_calls[0].function.arguments|tojson }}{{ tools|tojson }}{{ z|tojson }}",
      **tokenizer);
  ASSERT_TRUE(chat.ok()) << chat.status();
  std::string wide = R"({"z": 1)";
  for (int i = 40; i > 0; --i) absl::StrAppend(&wide, ", \"k", i, "\": {\"b\": 1, \"a\": [2]}");
  wide += "}";
  const std::string call = absl::StrCat(
      R"([{"type": "function", "id": "1", "function": {"name": "f", "arguments": )", wide, "}}]");
  const std::string body = absl::StrCat(
      R"({"messages": [{"tool_calls": )", call, R"(, "role": "assistant", "content": "x"}], )",
      R"("tools": [)", wide, R"(], "chat_template_kwargs": {"z": )", wide, "}}");
  const auto parsed = ParseTokenize(*ParseBody(body), "");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const auto http = ChatIds(*parsed->conversation, chat->get(), 0, 0);
  ASSERT_TRUE(http.ok()) << http.status();
  EXPECT_EQ(*(*tokenizer)->Decode(*http), absl::StrCat(wide, "[", wide, "]", wide));
  v1::Conversation conversation;
  v1::ChatMessage& message = *conversation.add_messages();
  message.set_role("assistant");
  message.set_content("x");
  v1::ToolCall& sent = *message.add_tool_calls();
  sent.set_id("1");
  sent.set_name("f");
  sent.set_arguments(wide);
  conversation.add_tools(wide);
  conversation.set_template_arguments(absl::StrCat(R"({"z": )", wide, "}"));
  const auto grpc = EncodeConversation(**chat, conversation);
  ASSERT_TRUE(grpc.ok()) << grpc.status();
  EXPECT_EQ(*grpc, *http);
}

// What the template lacks is not the caller's fault.
TEST(ConversationFronts, ALackOfTheTemplateIsNotBlamedOnMessages) {
  auto tokenizer = tokenizer::Tokenizer::Load(tandem::testing::SourcePath("demo/target"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  auto chat =
      tokenizer::ChatTemplate::FromText("{}", "{{ messages[0].content|xmlattr }}", **tokenizer);
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ((*chat)->missing(), "filter \"xmlattr\"");
  const auto parsed =
      ParseTokenize(*ParseBody(R"({"messages": [{"role": "user", "content": "x"}]})"), "");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const absl::Status refused = ChatIds(*parsed->conversation, chat->get(), 0, 0).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(refused.message()), ::testing::StartsWith("the chat template failed"));
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("xmlattr"));
}

}  // namespace
}  // namespace tandem::orchestrator::conversation_fronts_test
