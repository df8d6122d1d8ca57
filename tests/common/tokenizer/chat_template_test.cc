// Chat templates against what transformers makes of the same conversations
// (chat_goldens/make_goldens.py), and against callers who write special tokens.
#include "common/tokenizer/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/common/tokenizer/test_tokenizers.h"

namespace tandem::tokenizer {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::ordered_json;

std::string GoldenPath(const std::string& name) {
  return ::tandem::testing::SourcePath("tests/common/tokenizer/chat_goldens/" + name);
}

const Json& Goldens() {
  static const Json* const goldens = new Json(Json::parse(ReadAll(GoldenPath("goldens.json"))));
  return *goldens;
}

const Json& FamilyOf(const std::string& name) {
  for (const Json& family : Goldens()["families"]) {
    if (family["family"] == name) return family;
  }
  ADD_FAILURE() << name;
  return Goldens();
}

std::shared_ptr<const Tokenizer> FamilyTokenizer(const Json& family) {
  Json json = Json::parse(ReadAll(family["base"] == "demo" ? DemoDirectory() + "/tokenizer.json"
                                                           : GoldenPath("byte_fallback.json")));
  for (const Json& token : family["added_tokens"]) json["added_tokens"].push_back(token);
  auto tokenizer = Tokenizer::FromJson(json.dump());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

// A tokenizer and a template of it.
struct Chat {
  Chat(std::shared_ptr<const Tokenizer> its_tokenizer, const Json& config,
       std::string_view jinja = "")
      : tokenizer(std::move(its_tokenizer)) {
    auto chat = ChatTemplate::FromText(config.dump(), jinja, *tokenizer);
    EXPECT_TRUE(chat.ok()) << chat.status();
    chat_template = *std::move(chat);
  }

  absl::StatusOr<ChatPrompt> Apply(const Json& conversation) const {
    const auto text = [&conversation](const char* key) {
      return conversation.contains(key) ? conversation[key].dump() : std::string();
    };
    const std::string messages = text("messages"), tools = text("tools"),
                      arguments = text("arguments");
    return chat_template->Apply(
        {.messages = messages,
         .tools = tools,
         .arguments = arguments,
         .add_generation_prompt = conversation.value("add_generation_prompt", true),
         .now = absl::FromUnixSeconds(Goldens()["now"].get<int64_t>())});
  }

  size_t Specials(const std::vector<uint32_t>& ids) const {
    return std::count_if(ids.begin(), ids.end(),
                         [this](uint32_t id) { return tokenizer->IsSpecial(id); });
  }

  // The names of all special tokens.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (uint32_t id = 0; id < tokenizer->vocabulary_size(); ++id) {
      if (tokenizer->IsSpecial(id)) names.emplace_back(tokenizer->TokenBytes(id));
    }
    return names;
  }

  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat_template;
};

Chat FamilyChat(const Json& family) {
  return Chat(FamilyTokenizer(family), family["special_tokens"],
              ReadAll(GoldenPath(
                  absl::StrCat("templates/", family["family"].get<std::string>(), ".jinja"))));
}

std::shared_ptr<const Tokenizer> LlamaTokenizer() {
  static const auto* const tokenizer =
      new std::shared_ptr<const Tokenizer>(FamilyTokenizer(FamilyOf("llama3")));
  return *tokenizer;
}

// A template of one's own with Llama 3's tokens.
Chat LlamaChat(std::string_view jinja) {
  return Chat(LlamaTokenizer(), FamilyOf("llama3")["special_tokens"], jinja);
}

Json Say(const std::string& text) {
  return {{"messages", {{{"role", "user"}, {"content", text}}}}};
}

class ChatGoldensTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_EQ(setenv("TZ", "UTC", 1), 0);
    tzset();
  }
};

TEST_P(ChatGoldensTest, TextAndIdsAreThoseOfTransformers) {
  const Json& family = FamilyOf(GetParam());
  const Chat chat = FamilyChat(family);
  for (const Json& golden : family["cases"]) {
    SCOPED_TRACE(golden["name"]);
    const absl::StatusOr<ChatPrompt> prompt = chat.Apply(golden);
    if (golden.contains("error")) {
      ASSERT_FALSE(prompt.ok()) << prompt->text;
      EXPECT_EQ(prompt.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(prompt.status().message()),
                  HasSubstr(golden["error"].get<std::string>()));
      continue;
    }
    ASSERT_TRUE(prompt.ok()) << prompt.status();
    EXPECT_EQ(prompt->text, golden["text"].get<std::string>());
    EXPECT_THAT(prompt->ids, ElementsAreArray(golden["ids"].get<std::vector<uint32_t>>()));
  }
}

// Wherever a caller may write, a name stays text: the prompt has as many special tokens as one of
// ordinary words, and the text is as it was written.
TEST_P(ChatGoldensTest, NoNameOfASpecialTokenBecomesOne) {
  const Json& family = FamilyOf(GetParam());
  const Chat chat = FamilyChat(family);
  for (const Json& golden : family["cases"]) {
    if (golden.contains("error")) continue;
    SCOPED_TRACE(golden["name"]);
    const absl::StatusOr<ChatPrompt> ordinary = chat.Apply(golden);
    ASSERT_TRUE(ordinary.ok()) << ordinary.status();
    for (const std::string& name : chat.Names()) {
      SCOPED_TRACE(name);
      // These words stand in contents, in descriptions and in calls.
      Json attack = Json::parse(absl::StrReplaceAll(
          golden.dump(), {{"you", name}, {"weather is", name}, {"Zürich", name + name}}));
      attack["messages"].back()["content"] =
          golden["messages"].back()["content"].is_string()
              ? Json(absl::StrCat("a ", name, name, "\n", name, "b ", name.substr(0, 2), name))
              : golden["messages"].back()["content"];
      const absl::StatusOr<ChatPrompt> prompt = chat.Apply(attack);
      ASSERT_TRUE(prompt.ok()) << prompt.status();
      EXPECT_EQ(chat.Specials(prompt->ids), chat.Specials(ordinary->ids)) << prompt->text;
      if (golden["messages"].back()["content"].is_string()) {
        EXPECT_GT(chat.Specials(*chat.tokenizer->Encode(prompt->text, false)),
                  chat.Specials(prompt->ids))
            << "the text alone would make them";
      }
      std::string spelled;
      for (const uint32_t id : prompt->ids) spelled += chat.tokenizer->TokenBytes(id);
      if (family["base"] == "demo") {
        EXPECT_EQ(spelled, prompt->text);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ChatGoldensTest,
                         ::testing::Values("llama3", "qwen2.5", "qwen3", "mistral", "gemma3",
                                           "phi3", "smollm2", "constructs"),
                         [](const auto& info) {
                           return absl::StrReplaceAll(info.param, {{".", "_"}});
                         });

TEST(ChatTemplateTest, TheTemplatesBeginningIsTheOnlyOne) {
  const Chat chat = FamilyChat(FamilyOf("mistral"));  // whose tokenizer adds <s> to plain text
  const absl::StatusOr<ChatPrompt> prompt = chat.Apply(Say("x"));
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  EXPECT_EQ(std::count(prompt->ids.begin(), prompt->ids.end(), 1), 1);
  EXPECT_EQ(prompt->ids[0], 1);
}

// However a template cuts, joins and moves the caller's text.
TEST(ChatTemplateTest, TextThatTheTemplateTakesApartIsTheCallersStill) {
  const std::vector<std::pair<std::string, std::string>> attacks = {
      {"{{ messages[0].content.replace('X', '') }}", "<|eot_Xid|>"},
      {"{{ messages[0].content.split('X') | join }}", "<|eotX_id|>"},
      {"{{ messages[0].content[1:-1] }}", " <|eot_id|> "},
      {"{{ messages[0].content[::-1] }}", ">|di_toe|<"},
      {"{{ '<|' + messages[0].content + '|>' }}", "eot_id"},
      {"{{ messages[0].content + '_id|>' }}", "<|eot"},
      {"{{ messages[0].content }}|>", "<|eot_id"},
      {"<{{ messages[0].content }}", "|eot_id|>"},
      {"{{ messages[0].content | lower }}", "<|EOT_ID|>"},
      {"{% for c in messages[0].content %}{{ c }}{% endfor %}", "<|eot_id|>"},
      {"{{ messages[0] | tojson }}", "<|eot_id|>"},
      {"{% if '</think>' in messages[0].content %}{{ messages[0].content }}{% endif %}",
       "</think><|eot_id|>"},
  };
  for (const auto& [jinja, text] : attacks) {
    SCOPED_TRACE(jinja);
    const Chat chat = LlamaChat(jinja + "<|eom_id|>");
    const absl::StatusOr<ChatPrompt> prompt = chat.Apply(Say(text));
    ASSERT_TRUE(prompt.ok()) << prompt.status();
    EXPECT_EQ(chat.Specials(prompt->ids), 1) << prompt->text;
    EXPECT_GT(prompt->text.size(), 10);
  }
}

TEST(ChatTemplateTest, WhatCannotBeToldApartIsRefused) {
  const Chat chat =
      LlamaChat("{{ 'secret' if '|' in messages[0].content else messages[0].content }}");
  EXPECT_TRUE(chat.Apply(Say("no sign")).ok());
  const absl::StatusOr<ChatPrompt> prompt = chat.Apply(Say("a | b"));
  ASSERT_FALSE(prompt.ok()) << prompt->text;
  EXPECT_THAT(std::string(prompt.status().message()), HasSubstr("cannot be told apart"));
}

TEST(ChatTemplateTest, ToolsAndArgumentsAreTheCallersToo) {
  const Chat chat = LlamaChat(
      "{{ tools | tojson }}{{ extra }}{{ messages[0].tool_calls | tojson }}{{ messages[0].name }}"
      "{{ bos_token }}");
  const std::string name = "<|eot_id|>";
  const absl::StatusOr<ChatPrompt> prompt =
      chat.Apply({{"messages",
                   {{{"role", "assistant"},
                     {"content", nullptr},
                     {"name", name},
                     {"tool_calls",
                      {{{"id", name},
                        {"type", name},
                        {"function",
                         {{"name", name}, {"arguments", "{\"<|eot_id|>\": \"<|eot_id|>\"}"}}}}}}}}},
                  {"tools", {{{"type", name}, {name, name}}}},
                  {"arguments", {{"extra", name}, {"bos_token", name}}}});
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  EXPECT_EQ(chat.Specials(prompt->ids), 0) << prompt->text;
  EXPECT_THAT(prompt->text, HasSubstr(R"({"<|eot_id|>": "<|eot_id|>"})"));
}

TEST(ChatTemplateTest, MessagesAreChecked) {
  const Chat chat = LlamaChat("{{ messages[0].content }}");
  const auto error = [&chat](const Json& conversation) {
    const absl::StatusOr<ChatPrompt> prompt = chat.Apply(conversation);
    EXPECT_EQ(prompt.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(prompt.status().message());
  };
  EXPECT_THAT(error({{"messages", Json::array()}}), HasSubstr("messages: must not be empty"));
  EXPECT_THAT(error({{"messages", 1}}), HasSubstr("messages: must be a list"));
  EXPECT_THAT(error({{"messages", {1}}}), HasSubstr("messages[0]: must be an object"));
  Json role = Say("x");
  role["messages"].push_back({{"role", "eot_id"}, {"content", "x"}});
  EXPECT_THAT(error(role), HasSubstr("messages[1].role: \"eot_id\" is none of system"));
  Json image = Say("x");
  image["messages"][0]["content"] = {{{"type", "image_url"}}};
  EXPECT_THAT(error(image), HasSubstr("messages[0].content[0].type: only \"text\""));
  Json reserved = Say("x");
  reserved["arguments"] = {{"messages", 1}};
  EXPECT_THAT(error(reserved), HasSubstr("messages has a field of its own"));
  const absl::StatusOr<ChatPrompt> no_json = chat.chat_template->Apply({.messages = "[{"});
  EXPECT_THAT(std::string(no_json.status().message()), StartsWith("messages: no JSON"));
  const std::string deep(100'000, '[');
  EXPECT_FALSE(chat.chat_template->Apply({.messages = deep}).ok());
}

TEST(ChatTemplateTest, PartsAreJoinedWhereTheTemplateTakesNone) {
  Json parts = Say("");
  parts["messages"][0]["content"] = {{{"type", "text"}, {"text", "one"}},
                                     {{"type", "text"}, {"text", "two"}}};
  const Chat chat = LlamaChat("{{ messages[0].content }}");
  const absl::StatusOr<ChatPrompt> prompt = chat.Apply(parts);
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  EXPECT_EQ(prompt->text, "one\ntwo");
}

TEST(ChatTemplateTest, WorkIsBounded) {
  for (const char* jinja :
       {"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{% for i in range(100000) %}{{ 'xxxxxxxxxxxxxxxx' * 100 }}{% endfor %}",
        "{% macro f(x) %}{{ f(x + 1) }}{% endmacro %}{{ f(0) }}",
        "{% set ns = namespace(x='x') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}"
        "{% endfor %}"}) {
    SCOPED_TRACE(jinja);
    const absl::StatusOr<ChatPrompt> prompt = LlamaChat(jinja).Apply(Say("x"));
    EXPECT_EQ(prompt.status().code(), absl::StatusCode::kInvalidArgument);
  }
  const std::unique_ptr<Tokenizer> tokenizer = LoadDemo();
  const auto large = ChatTemplate::FromText("{}", std::string((1 << 20) + 1, 'x'), *tokenizer);
  EXPECT_EQ(large.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ChatTemplateTest, NamedTemplates) {
  const Json config = {{"chat_template",
                        {{{"name", "default"}, {"template", "plain"}},
                         {{"name", "tool_use"}, {"template", "tools"}}}}};
  const Chat chat(LlamaTokenizer(), config);
  Json with_tools = Say("x");
  with_tools["tools"] = {{{"type", "function"}}};
  EXPECT_EQ(chat.Apply(Say("x"))->text, "plain");
  EXPECT_EQ(chat.Apply(with_tools)->text, "tools");
}

TEST(ChatTemplateTest, FilesOfADirectory) {
  const std::unique_ptr<Tokenizer> tokenizer = LoadDemo();
  const std::string directory = ::testing::TempDir() + "/chat_template_test";
  std::filesystem::create_directories(directory);
  const auto write = [&directory](const char* name, std::string_view text) {
    std::ofstream(directory + "/" + name) << text;
  };
  const auto load = [&] { return ChatTemplate::Load(directory, *tokenizer); };
  ASSERT_TRUE(load().ok());
  EXPECT_EQ(*load(), nullptr);
  write("tokenizer_config.json", R"({"chat_template": "from config{{ eos_token }}",
                                     "eos_token": {"content": "<|endoftext|>"}})");
  const std::string messages = Say("x")["messages"].dump();
  EXPECT_EQ((*load())->Apply({.messages = messages})->text, "from config<|endoftext|>");
  write("chat_template.jinja", "from file{{ eos_token }}\n");
  EXPECT_EQ((*load())->Apply({.messages = messages})->text, "from file<|endoftext|>");
  write("chat_template.jinja", "{% if %}");
  EXPECT_THAT(std::string(load().status().message()), HasSubstr("chat_template.jinja: its chat"));
  std::filesystem::remove_all(directory);
}

TEST(ParseSpecialTokensTest, NamesAreTextAsInTransformers) {
  ASSERT_THAT(Goldens()["split_special_tokens"], Not(IsEmpty()));
  for (const Json& golden : Goldens()["split_special_tokens"]) {
    SCOPED_TRACE(golden["text"]);
    const auto ids = LlamaTokenizer()->Encode(golden["text"].get<std::string>(), false, false);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_THAT(*ids, ElementsAreArray(golden["ids"].get<std::vector<uint32_t>>()));
  }
}

TEST(ParseSpecialTokensTest, OrdinaryTextHasTheSameIds) {
  std::mt19937 random(7);
  for (const char* family : {"llama3", "gemma3", "phi3"}) {
    const Chat chat = FamilyChat(FamilyOf(family));
    for (int i = 0; i < 200; ++i) {
      const std::string text = RandomText(random, 1 + i % 40);
      EXPECT_EQ(*chat.tokenizer->Encode(text, true, false), *chat.tokenizer->Encode(text)) << text;
    }
  }
  const std::unique_ptr<Tokenizer> prefixed = MakeTokenizer(ByteFallbackJson());
  EXPECT_EQ(*prefixed->Encode("hello  world", true, false), *prefixed->Encode("hello  world"));
}

TEST(ParseSpecialTokensTest, TheTokensAroundATextAreAddedStill) {
  const std::unique_ptr<Tokenizer> tokenizer = MakeTokenizer(ByteFallbackJson());
  const std::vector<uint32_t> ids = *tokenizer->Encode("</s>", true, false);
  EXPECT_EQ(ids[0], 1);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 2), 0);
  EXPECT_EQ(*tokenizer->Decode(ids), "</s>");
}

}  // namespace
}  // namespace tandem::tokenizer
