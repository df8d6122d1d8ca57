// What a chat template sees of a conversation on the wire.
#include "orchestrator/generate/encode_conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "common/tokenizer/chat_template.h"
#include "common/tokenizer/tokenizer.h"
#include "tests/support/paths.h"

namespace tandem::orchestrator {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class EncodeConversationTest : public ::testing::Test {
 protected:
  EncodeConversationTest() {
    auto tokenizer = tokenizer::Tokenizer::Load(tandem::testing::SourcePath("demo/target"));
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
  }
  // The prompt's text.
  std::string Prompt(const std::string& jinja) const {
    auto chat = tokenizer::ChatTemplate::FromText("{}", jinja, *tokenizer_);
    EXPECT_TRUE(chat.ok()) << chat.status();
    const auto ids = EncodeConversation(**chat, conversation_);
    return ids.ok() ? *tokenizer_->Decode(*ids) : std::string(ids.status().message());
  }

  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  v1::Conversation conversation_;
};

TEST_F(EncodeConversationTest, AllFieldsReachTheTemplate) {
  v1::ChatMessage& message = *conversation_.add_messages();
  message.set_role("assistant");
  message.set_name("Bo");
  message.set_reasoning_content("hm");
  v1::ToolCall& call = *message.add_tool_calls();
  call.set_id("c1");
  call.set_name("f");
  call.set_arguments(R"({"b": 1, "a": "x"})");
  v1::ChatMessage& answer = *conversation_.add_messages();
  answer.set_role("tool");
  answer.set_content("\"ok\"");
  answer.set_tool_call_id("c1");
  conversation_.add_tools(R"({"type": "function", "z": 1, "a": 2})");
  conversation_.add_tools("{}");
  conversation_.set_template_arguments(R"({"deep": {"x": [1]}})");
  EXPECT_EQ(Prompt("{{ messages | tojson }}{{ tools | tojson }}{{ deep.x[0] }}"
                   "{{ add_generation_prompt }}"),
            R"([{"thinking": "hm", "role": "assistant", "name": "Bo", "reasoning_content": "hm", )"
            R"("tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", )"
            R"("arguments": {"b": 1, "a": "x"}}}]}, )"
            R"({"role": "tool", "content": "\"ok\"", "tool_call_id": "c1"}])"
            R"([{"type": "function", "z": 1, "a": 2}, {}]1True)");
  conversation_.set_add_generation_prompt(false);
  EXPECT_EQ(Prompt("{{ messages[0].tool_calls[0].function.name }}{{ messages[1].content }}"
                   "{{ add_generation_prompt }}"),
            "f\"ok\"False");
}

TEST_F(EncodeConversationTest, PartsAreAListWhereTheTemplateKnowsPartsAndElseOneText) {
  v1::ChatMessage& message = *conversation_.add_messages();
  message.set_role("user");
  message.add_content_parts("one");
  message.add_content_parts("");
  message.add_content_parts("three");
  EXPECT_EQ(Prompt("{{ messages[0].content }}"), "one\n\nthree");
  EXPECT_EQ(Prompt("{% for part in messages[0].content %}[{{ part.type }} {{ part.text }}]"
                   "{% endfor %}"),
            "[text one][text ][text three]");
  message.set_content("besides");
  EXPECT_THAT(Prompt("x"), StartsWith("messages[0].content_parts: "));
}

TEST_F(EncodeConversationTest, WhatIsWrongIsNamed) {
  conversation_.add_messages()->set_role("user");
  conversation_.set_template_arguments("1");
  EXPECT_THAT(Prompt("x"), StartsWith("template_arguments: must be an object"));
  conversation_.set_template_arguments(R"({"tools": []})");
  EXPECT_THAT(Prompt("x"), StartsWith("template_arguments: tools has a field of its own"));
  conversation_.set_template_arguments(R"({"x": {"name": 1, "name": 2}})");
  EXPECT_THAT(Prompt("x"), StartsWith("template_arguments: has \"name\" twice"));
  conversation_.clear_template_arguments();
  conversation_.add_tools("[1]");
  EXPECT_THAT(Prompt("x"), StartsWith("tools[0]: must be a JSON object"));
  conversation_.set_tools(0, "{}, {}");
  EXPECT_THAT(Prompt("x"), StartsWith("tools[0]: "));
  conversation_.clear_tools();
  conversation_.add_tools(R"({"type": "function", "type": "x"})");
  EXPECT_THAT(Prompt("x"), StartsWith("tools[0]: has \"type\" twice"));
  conversation_.clear_tools();
  conversation_.mutable_messages(0)->add_tool_calls()->set_arguments("{");
  EXPECT_THAT(Prompt("x"), StartsWith("messages[0].tool_calls[0].arguments: "));
  conversation_.mutable_messages(0)->clear_tool_calls();
  conversation_.mutable_messages(0)->set_role("nobody");
  EXPECT_THAT(Prompt("x"), StartsWith("messages[0].role: "));
  conversation_.mutable_messages(0)->set_role("user");
  EXPECT_THAT(Prompt("{{ raise_exception('no such ' + 'thing') }}"),
              HasSubstr("refuses this conversation: \"no such thing\""));
}

}  // namespace
}  // namespace tandem::orchestrator
