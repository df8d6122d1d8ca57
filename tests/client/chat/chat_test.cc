// Messages, commands, and the requests that they become.
#include "client/chat/commands.h"
#include "client/chat/history.h"
#include "client/chat/options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::client {
namespace {

using ::testing::HasSubstr;

absl::Status Parse(std::vector<std::string> args, ChatOptions& options) {
  flags::FlagSet flags("tandem chat", "");
  options.AddTo(flags);
  absl::Status status = flags.Parse(args);
  return status.ok() ? options.Validate() : status;
}

// "role: content", a line each.
std::string Said(const v1::GenerateRequest& request) {
  std::string text;
  for (const v1::ChatMessage& message : request.conversation().messages()) {
    text += message.role() + ": " + message.content() + "\n";
  }
  return text;
}

TEST(ChatOptionsTest, AllFlagsReachTheRequest) {
  ChatOptions options;
  const absl::Status status =
      Parse({"--system=Be brief.", "--template-arguments={\"enable_thinking\": false}", "-n", "20",
             "--temperature=0.5", "--seed=3"},
            options);
  ASSERT_TRUE(status.ok()) << status;
  const v1::GenerateRequest request = ChatHistory(options, "scope", true).Ask("Hello");
  EXPECT_EQ(Said(request), "system: Be brief.\nuser: Hello\n");
  EXPECT_EQ(request.conversation().template_arguments(), "{\"enable_thinking\": false}");
  EXPECT_EQ(request.max_tokens(), 20u);
  EXPECT_FLOAT_EQ(request.sampling().temperature(), 0.5f);
  EXPECT_EQ(request.seed(), 3u);
  EXPECT_EQ(request.cache_scope(), "scope");
  EXPECT_TRUE(request.text_runs());
}

TEST(ChatOptionsTest, WhatIsWrongIsNamed) {
  ChatOptions options;
  EXPECT_THAT(std::string(Parse({"--system=\xff"}, options).message()), HasSubstr("--system"));
}

TEST(ChatHistoryTest, WhatWasAnsweredIsSentAgain) {
  for (const char* system : {"", "S"}) {
    ChatOptions options;
    options.system = system;
    const std::string first = *system == '\0' ? "" : "system: S\n";
    ChatHistory history(options, "", false);
    EXPECT_FALSE(history.Undo());
    EXPECT_EQ(Said(history.Ask("a")), first + "user: a\n");
    EXPECT_EQ(Said(history.Ask("b")), first + "user: b\n") << "a had no answer";
    history.Add("b", "B");
    history.Add("c", "C");
    EXPECT_TRUE(history.Undo());
    EXPECT_EQ(Said(history.Ask("d")), first + "user: b\nassistant: B\nuser: d\n");
    history.Reset();
    EXPECT_EQ(Said(history.Ask("e")), first + "user: e\n");
    history.Add("e", "E");
    history.SetSystem("T");
    EXPECT_EQ(Said(history.Ask("f")), "system: T\nuser: f\n");
    history.SetSystem("");
    EXPECT_EQ(Said(history.Ask("g")), "user: g\n");
  }
}

TEST(ChatCommandsTest, ALineIsAMessageOrACommand) {
  const struct {
    const char* line;
    ChatCommand command;
    const char* text;
  } cases[] = {
      {"", ChatCommand::kNone, ""},
      {" \t", ChatCommand::kNone, ""},
      {" Hello, you\nthere \r", ChatCommand::kMessage, "Hello, you\nthere"},
      {"//etc/hosts", ChatCommand::kMessage, "/etc/hosts"},
      {"/reset", ChatCommand::kReset, ""},
      {"/undo ", ChatCommand::kUndo, ""},
      {"/help", ChatCommand::kHelp, ""},
      {"/quit", ChatCommand::kQuit, ""},
      {"/exit", ChatCommand::kQuit, ""},
      {"/system", ChatCommand::kSystem, ""},
      {"/system  Be brief. ", ChatCommand::kSystem, "Be brief."},
      {"/systems", ChatCommand::kUnknown, "/systems"},
      {"/reset all", ChatCommand::kUnknown, "/reset all"},
      {"/", ChatCommand::kUnknown, "/"},
  };
  for (const auto& [line, command, text] : cases) {
    const ChatInput input = ReadChatInput(line);
    EXPECT_EQ(input.command, command) << line;
    EXPECT_EQ(input.text, text) << line;
  }
}

}  // namespace
}  // namespace tandem::client
