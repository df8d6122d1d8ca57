// Chat templates against what transformers makes of the same conversations
// (chat_goldens/make_goldens.py), and against callers who write special tokens.
#include "common/tokenizer/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

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

absl::StatusOr<ChatPrompt> Apply(const ChatTemplate& chat_template, const Json& conversation) {
  const auto text = [&conversation](const char* key) {
    return conversation.contains(key) ? conversation[key].dump() : std::string();
  };
  const std::string messages = text("messages"), tools = text("tools"),
                    arguments = text("arguments");
  return chat_template.Apply(
      {.messages = messages,
       .tools = tools,
       .arguments = arguments,
       .add_generation_prompt = conversation.value("add_generation_prompt", true),
       .now = absl::FromUnixSeconds(Goldens()["now"].get<int64_t>())});
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
    return tokenizer::Apply(*chat_template, conversation);
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
    const bool lost = golden.contains("left_out");
    if (golden["name"] == "developer" && (lost || golden.contains("error"))) {
      // The template does not know the role: the developer is the system.
      Json system = golden;
      system["messages"][0]["role"] = "system";
      ASSERT_TRUE(prompt.ok()) << prompt.status();
      EXPECT_THAT(prompt->text, HasSubstr("Be brief."));
      EXPECT_EQ(prompt->text, chat.Apply(system)->text);
      continue;
    }
    if (lost) {
      EXPECT_THAT(std::string(prompt.status().message()),
                  StartsWith(absl::StrCat("messages[", golden["left_out"].get<int>(), "]: ")));
      continue;
    }
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
    if (golden.contains("error") || golden.contains("left_out")) continue;
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

// What the engine makes otherwise than Jinja2; "error": it refuses. The list is that of
// docs/adr/2026-11-28-chat-template-engine.md.
const std::map<std::string, std::string>& Differences() {
  static const auto* const differences = new std::map<std::string, std::string>{
      {"{{ '%s' % 'a' }}", "error"},
      {"{% for x in none %}x{% endfor %}", ""},
      {"{{ 'a\\nb'|indent('>') }}", "error"},
      {"{{ '1.5'|float }} {{ 'x'|float }}", "error"},
      {"{{ '<b>&\"'|e }}", "&lt;b&gt;&amp;&quot;"},
      {"{{ {'b':1}|tojson(2) }}", "error"},
      {"{% set ns = namespace(_x=1) %}{{ ns._x }}", "1"},
      {"{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}", "error"},
      {"{{ range(3) }}", "[0, 1, 2]"},
      {"{% macro m() %}{{ varargs }}{% endmacro %}{{ m(1) }}", "error"},
      {"{{ messages[0]|attr('role') }}", "user"},
      {"{% block x %}in block{% endblock %}", "error"},
      {"{% raw %}\n x\n{% endraw %}\ny", " x\ny"},
      {"{{ [1e-7] }}{{ 1e-7 ~ '' }}", "[1e-7]0.0000001"},
      {"{{ lipsum is defined }}", "False"},
      {"{{ 'a b c'|wordcount }}", "error"},
      {"{{ 'hello world foo'|truncate(9) }}", "error"},
      {"{{ 'a'|center(5) }}", "error"},
      {"{{ 'a b'|urlencode }}", "error"},
      {"{{ '<p>'|striptags }}", "error"},
      {"{{ 1024|filesizeformat }}", "error"},
      {"{{ {'a':1}|xmlattr }}", "error"},
      {"{{ 'a b c'|wordwrap(2) }}", "error"},
      {"{{ 'x'|forceescape }}", "error"},
      {"{{ cycler('a', 'b').next() }}", "error"},
      {"{{ 'a'.encode('utf-8') }}", "error"},
  };
  return *differences;
}

TEST(ChatTemplateTest, TheEngineDoesAsJinja2) {
  ASSERT_EQ(setenv("TZ", "UTC", 1), 0);
  tzset();
  const Json& engine = Goldens()["engine"];
  size_t different = 0;
  for (const Json& golden : engine["cases"]) {
    const std::string jinja = golden["template"];
    SCOPED_TRACE(jinja);
    const auto difference = Differences().find(jinja);
    const bool differs = difference != Differences().end();
    std::string right = golden.contains("error") ? "error" : golden["text"].get<std::string>();
    if (differs) {
      EXPECT_NE(right, difference->second) << "differs no longer";
      right = difference->second;
      ++different;
    }
    const auto chat = ChatTemplate::FromText("{}", jinja, *LlamaTokenizer());
    const auto prompt = chat.ok() ? Apply(**chat, {{"messages", engine["messages"]}})
                                  : absl::StatusOr<ChatPrompt>(chat.status());
    EXPECT_EQ(prompt.ok() ? prompt->text : "error", right) << prompt.status();
  }
  EXPECT_EQ(different, Differences().size());
}

// However files write the end of a line.
TEST(ChatTemplateTest, EndsOfLinesAreThoseOfJinja2) {
  const std::string jinja = "a\n{% if true %}\nb\n{% endif %}\n{{ messages[0].content }}\n";
  const std::string text = LlamaChat(jinja).Apply(Say("x\r\ny"))->text;
  EXPECT_EQ(text, "a\nb\nx\r\ny");
  for (const char* end : {"\r\n", "\r"}) {
    const std::string other = absl::StrReplaceAll(jinja, {{"\n", end}});
    EXPECT_EQ(LlamaChat(other).Apply(Say("x\r\ny"))->text, text);
    const Chat named(LlamaTokenizer(), {{"chat_template", other}});
    EXPECT_EQ(named.Apply(Say("x\r\ny"))->text, text);
  }
}

TEST(ChatTemplateTest, NoMessageIsLost) {
  const std::string roles =
      "{% for m in messages %}{% if m.role == 'system' or m.role == 'user' or m.role == "
      "'assistant' %}<{{ m.role }}>{{ m.content }}{% endif %}{% endfor %}";
  const Chat chat = LlamaChat(roles);
  const auto say = [&chat](const Json& message) {
    const auto prompt =
        chat.Apply({{"messages", {{{"role", "user"}, {"content", "hello there"}}, message}}});
    return prompt.ok() ? prompt->text : std::string(prompt.status().message());
  };
  EXPECT_EQ(say({{"role", "developer"}, {"content", "Be brief"}}),
            "<user>hello there<system>Be brief");
  for (const char* role : {"tool", "function"}) {
    EXPECT_EQ(say({{"role", role}, {"content", "42 degrees"}}),
              absl::StrCat("messages[1]: the chat template leaves out this message of role \"",
                           role, "\""));
    EXPECT_THAT(say({{"role", role}, {"content", {{{"type", "text"}, {"text", "é日本"}}}}}),
                StartsWith("messages[1]: "));
  }
  // Members that a template ignores are ignored, as in transformers; a null is empty.
  EXPECT_EQ(say({{"role", "assistant"},
                 {"content", nullptr},
                 {"name", nullptr},
                 {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", ""}}}}}}}),
            "<user>hello there<assistant>");
  EXPECT_THAT(say({{"role", "foo"}, {"content", "x"}}), HasSubstr("\"foo\" is none of system"));
  EXPECT_EQ(say({{"role", "system"}, {"content", "\n"}}), "<user>hello there<system>\n");
  // A template that takes the system's message at the beginning alone, and one that takes one part.
  const Chat first = LlamaChat(
      "{% for m in messages %}{% if m.role == 'user' or loop.first %}{{ m.content }}{% endif %}"
      "{% endfor %}");
  Json late = Say("hello");
  late["messages"].push_back({{"role", "system"}, {"content", "late"}});
  EXPECT_THAT(std::string(first.Apply(late).status().message()), StartsWith("messages[1]: "));
  const Chat one_part = LlamaChat(
      "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
      "{{ m.content[0].text }}{% endif %}{% endfor %}");
  Json parts = Say("");
  parts["messages"][0]["content"] = {{{"type", "text"}, {"text", "one"}},
                                     {{"type", "text"}, {"text", "two"}}};
  EXPECT_THAT(std::string(one_part.Apply(parts).status().message()), StartsWith("messages[0]: "));
  // A template that changes a text has not lost it.
  for (const char* change : {"[::-1]", "|upper", "|replace('hello', 'x')", "|length"}) {
    EXPECT_TRUE(
        LlamaChat(absl::StrCat("{{ messages[0].content", change, " }}")).Apply(Say("hello")).ok())
        << change;
  }
  // A template that knows the developer.
  const Chat developer =
      LlamaChat("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}");
  EXPECT_EQ(developer.Apply({{"messages", {{{"role", "developer"}, {"content", "x"}}}}})->text,
            "<developer>x");
}

TEST(ChatTemplateTest, ArgumentsOfACallMayBeEmpty) {
  const Chat chat = LlamaChat(
      "{% for call in messages[0].tool_calls %}{{ call.function.name }}"
      "{{ call.function.arguments|tojson }}{% endfor %}");
  for (const auto& [arguments, text] : {std::pair<Json, const char*>{"", "f{}"},
                                        {" \n", "f{}"},
                                        {"{}", "f{}"},
                                        {R"({"b": 1, "a": 2})", R"(f{"b": 1, "a": 2})"},
                                        {Json::object(), "f{}"},
                                        {"[1]", R"(f"[1]")"}}) {
    const Json call = {{"type", "function"},
                       {"function", {{"name", "f"}, {"arguments", arguments}}}};
    const auto prompt = chat.Apply(
        {{"messages", {{{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {call}}}}}});
    ASSERT_TRUE(prompt.ok()) << prompt.status();
    EXPECT_EQ(prompt->text, text);
  }
}

TEST(ChatTemplateTest, WhatTheEngineLacksIsNamedAtTheStart) {
  const Chat lacks = LlamaChat(
      "{{ messages[0].content }}{% if tools %}{{ tools|xmlattr }}{{ 'x'.encode('utf-8') }}"
      "{{ f(1) }}{% if 1 is nothing %}{% endif %}{% endif %}");
  EXPECT_EQ(lacks.chat_template->missing(),
            "filter \"xmlattr\", function \"f\", method \"encode\", test \"nothing\"");
  EXPECT_EQ(lacks.Apply(Say("x"))->text, "x");
  Json with_tools = Say("x");
  with_tools["tools"] = {{{"type", "function"}}};
  const auto refused = lacks.Apply(with_tools).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("xmlattr"));
  for (const Json& family : Goldens()["families"]) {
    EXPECT_EQ(FamilyChat(family).chat_template->missing(), "");
  }
  EXPECT_EQ(LlamaChat("{% macro f(a) %}{{ a.split('x')|join }}{{ caller() }}{% endmacro %}"
                      "{% call f(1) %}{% endcall %}{% set g = f %}{{ g(1) }}")
                .chat_template->missing(),
            "");
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
  const std::string doubled =
      "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
      "{% set ns.y = [ns.y, ns.y] %}{% endfor %}";
  const std::string long_texts =
      "{% set s = 'ab' * 500000 %}{% set t = 'ab' * 500000 %}{% for i in range(100000) %}";
  for (const std::string& jinja :
       {std::string("{% set ns = namespace(x=[1]) %}{% for i in range(60) %}"
                    "{% set ns.x = ns.x + ns.x %}{% endfor %}"),
        doubled + "{{ ns.x == ns.y }}", doubled + "{{ [ns.x, ns.y]|sort|length }}",
        doubled + "{{ {ns.x: 1}[ns.y] }}", doubled + "{{ ns.x|string|length }}",
        doubled + "{{ ns.x|tojson }}", doubled + "{{ '-'.join(ns.x) }}",
        long_texts + "{% if s == t %}{% endif %}{% endfor %}",
        long_texts + "{% if s[-1:] %}{% endif %}{% endfor %}",
        long_texts + "{% if {s: 1}[t] %}{% endif %}{% endfor %}",
        long_texts + "{% if t in [s] %}{% endif %}{% endfor %}",
        std::string("{{ ([1] * 1000000000)|length }}{{ range(9999)|list * 99999 }}"),
        std::string("{% set ns = namespace(x=1) %}{% for i in range(99999) %}"
                    "{% set ns.x = namespace(x=ns.x) %}{% endfor %}")}) {
    SCOPED_TRACE(jinja);
    // Of the sequence that is too long the engine says it itself.
    EXPECT_THAT(std::string(LlamaChat(jinja).Apply(Say("")).status().message()),
                ::testing::AnyOf(HasSubstr("takes too much work"), HasSubstr("too large"),
                                 HasSubstr("more than 8388608 bytes")));
  }
  for (const char* one : {"[ns.x]", "(ns.x,)", "{'a': ns.x}", "{1: [ns.x]}|items|list",
                          "dict(a=ns.x)", "[ns.x] + []", "[ns.x][:1]"}) {
    SCOPED_TRACE(one);
    const std::string jinja = absl::StrCat(
        "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = ", one,
        " %}{% endfor %}");
    EXPECT_THAT(std::string(LlamaChat(jinja).Apply(Say("")).status().message()),
                HasSubstr("nests more than 200 lists and objects"));
  }
  for (const char* jinja :
       {"{{ ('a' * 100000).replace('a', 'b' * 100000) }}",
        "{{ ('a' * 99).replace('', 'b' * 99999) }}", "{{ ('b' * 100000).join('a' * 100000) }}",
        "{{ '{:>99999999}'.format(1) }}", "{{ ('{0}' * 100000).format('b' * 100000) }}",
        "{{ 'a'.center(99999999)|length }}", "{{ [[[1]]]|tojson(indent='b' * 5000000) }}",
        "{{ [1, 2]|tojson(separators=('b' * 9000000, '')) }}"}) {
    SCOPED_TRACE(jinja);
    const absl::StatusOr<ChatPrompt> prompt = LlamaChat(jinja).Apply(Say("x"));
    EXPECT_THAT(std::string(prompt.status().message()), HasSubstr("more than 8388608 bytes"));
  }
  const std::unique_ptr<Tokenizer> tokenizer = LoadDemo();
  const auto large = ChatTemplate::FromText("{}", std::string((1 << 20) + 1, 'x'), *tokenizer);
  EXPECT_EQ(large.status().code(), absl::StatusCode::kInvalidArgument);
}

// Each would overflow the stack, when it is read or when it is freed.
TEST(ChatTemplateTest, NestingIsBounded) {
  const auto repeated = [](int count, std::string_view one) {
    std::string many;
    for (int i = 0; i < count; ++i) many += one;
    return many;
  };
  struct Nested {
    const char* begin;
    const char* one;
    const char* end;
  };
  const Nested expressions[] = {
      {"{{ ", "1+", "1 }}"},          {"{{ ", "a~", "a }}"},
      {"{{ ", "a and ", "a }}"},      {"{{ ", "not ", "a }}"},
      {"{{ ", "- ", "1 }}"},          {"{{ ", "1 if a else ", "1 }}"},
      {"{{ a", "|string", " }}"},     {"{{ a", ".a", " }}"},
      {"{{ a", "[0]", " }}"},         {"{{ a", "()", " }}"},
      {"{{ a", " is defined", " }}"}, {"{{ ", "2**", "1 }}"},
      {"{% set a = ", "1-", "1 %}"},  {"{% if ", "1<", "1 %}{% endif %}"},
      {"{{ [", "1,1+", "1] }}"},      {"{% filter upper", "|lower", " %}{% endfilter %}"},
      {"{% set a", ".a", " = 1 %}"}};
  for (const Nested& nested : expressions) {
    SCOPED_TRACE(nested.one);
    const auto load = [&](int count) {
      const std::string jinja = nested.begin + repeated(count, nested.one) + nested.end;
      return ChatTemplate::FromText("{}", jinja, *LlamaTokenizer()).status();
    };
    EXPECT_EQ(load(200), absl::OkStatus());
    if (std::string_view(nested.one) == "1,1+") {
      EXPECT_EQ(load(20'000), absl::OkStatus());  // a list is long, not deep
      continue;
    }
    EXPECT_THAT(std::string(load(20'000).message()),
                HasSubstr("line 1 nests more than 500 operators of an expression"));
  }
  for (const auto& [begin, end] :
       {std::pair<const char*, const char*>{"(", ")"}, {"[", "]"}, {"{1:", "}"}, {"f(", ")"}}) {
    const std::string jinja = "{{ " + repeated(20'000, begin) + "1" + repeated(20'000, end) + " }}";
    EXPECT_FALSE(ChatTemplate::FromText("{}", jinja, *LlamaTokenizer()).ok()) << begin;
  }
  for (const auto& [begin, end] : {std::pair<const char*, const char*>{"{% if a %}", "{% endif %}"},
                                   {"{% for a in b %}", "{% endfor %}"},
                                   {"{% generation %}", "{% endgeneration %}"}}) {
    const std::string jinja = repeated(20'000, begin) + repeated(20'000, end);
    EXPECT_FALSE(ChatTemplate::FromText("{}", jinja, *LlamaTokenizer()).ok()) << begin;
  }
  const std::string conditions = "\n{% if a %}" + repeated(20'000, "{% elif b %}") + "{% endif %}";
  EXPECT_THAT(
      std::string(ChatTemplate::FromText("{}", conditions, *LlamaTokenizer()).status().message()),
      HasSubstr("line 2 nests more than 500 \"elif\""));
}

TEST(ChatTemplateTest, NamedTemplates) {
  const Json config = {{"chat_template",
                        {{{"name", "default"}, {"template", "plain"}},
                         {{"name", "tool_use"}, {"template", "tools"}}}}};
  const Chat chat(LlamaTokenizer(), config);
  Json with_tools = Say("");
  with_tools["tools"] = {{{"type", "function"}}};
  EXPECT_EQ(chat.Apply(Say(""))->text, "plain");
  EXPECT_EQ(chat.Apply(with_tools)->text, "tools");
}

TEST(ChatTemplateTest, FilesOfADirectory) {
  const std::unique_ptr<Tokenizer> tokenizer = LoadDemo();
  const std::string directory = ::testing::TempDir() + "/chat_template_test";
  std::filesystem::create_directories(directory);
  const auto write = [&directory](const char* name, std::string_view text) {
    std::ofstream(directory + "/" + name) << text;
  };
  const auto load = [&] { return ChatTemplate::Load(directory, "", *tokenizer); };
  ASSERT_TRUE(load().ok());
  EXPECT_EQ(*load(), nullptr);
  write("tokenizer_config.json", R"({"chat_template": "from config{{ eos_token }}",
                                     "eos_token": {"content": "<|endoftext|>"}})");
  const std::string messages = Say("")["messages"].dump();
  EXPECT_EQ((*load())->Apply({.messages = messages})->text, "from config<|endoftext|>");
  write("chat_template.jinja", "from file{{ eos_token }}\n");
  EXPECT_EQ((*load())->Apply({.messages = messages})->text, "from file<|endoftext|>");
  // Further templates lie in a folder, by their names.
  std::filesystem::create_directories(directory + "/additional_chat_templates");
  write("additional_chat_templates/tool_use.jinja", "with tools");
  write("additional_chat_templates/rag.jinja", "{{ documents }}");
  write("additional_chat_templates/notes.txt", "{% if %}");
  const auto text = [&](const char* tools) {
    const auto chat = load();
    EXPECT_TRUE(chat.ok()) << chat.status();
    const auto prompt = (*chat)->Apply({.messages = messages, .tools = tools});
    return prompt.ok() ? prompt->text : std::string(prompt.status().message());
  };
  EXPECT_EQ(text(""), "from file<|endoftext|>");
  EXPECT_EQ(text("[]"), "from file<|endoftext|>");
  EXPECT_EQ(text("[{}]"), "with tools");
  // Files go before tokenizer_config.json, also where they have no "default".
  std::filesystem::remove(directory + "/chat_template.jinja");
  EXPECT_THAT(text(""), HasSubstr("none by the name \"default\""));
  EXPECT_EQ(text("[{}]"), "with tools");
  // A file by itself goes before all.
  const std::string own = directory + "/own";
  write("own", "own{{ eos_token }}");
  EXPECT_EQ((*ChatTemplate::Load(directory, own, *tokenizer))->Apply({.messages = messages})->text,
            "own<|endoftext|>");
  const auto error = [&](const std::string& file) {
    return std::string(ChatTemplate::Load(directory, file, *tokenizer).status().message());
  };
  EXPECT_EQ(error(directory + "/nothing"), directory + "/nothing: No such file or directory");
  EXPECT_EQ(error(directory), directory + ": not a regular file");
  EXPECT_EQ(error("/dev/zero"), "/dev/zero: not a regular file");
  write("own", "\xff");
  EXPECT_EQ(error(own), own + ": not UTF-8");
  write("own", "{% if %}");
  EXPECT_THAT(error(own), StartsWith(own + ": its chat template cannot be read"));
  write("additional_chat_templates/tool_use.jinja", "{% if %}");
  EXPECT_THAT(error(""), HasSubstr("its chat template \"tool_use\" cannot be read"));
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
