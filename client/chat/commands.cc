#include "client/chat/commands.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "common/flags/nearest_name.h"

namespace tandem::client {
namespace {

constexpr std::pair<const char*, ChatCommand> kNames[] = {
    {"/help", ChatCommand::kHelp},     {"/reset", ChatCommand::kReset},
    {"/system", ChatCommand::kSystem}, {"/undo", ChatCommand::kUndo},
    {"/quit", ChatCommand::kQuit},     {"/exit", ChatCommand::kQuit}};

}  // namespace

const char kChatCommands[] =
    R"(A line is a message; one that ends with \ goes on in the next line. Beside messages:
  /reset         forgets what was said
  /undo          forgets the last message and its answer
  /system TEXT   sets the system's message, and forgets what was said; without TEXT there is none
  /help          this text
  /quit          ends, as the end of input does; so does Ctrl-C, which first stops an answer
  //text         the message "/text"
)";

std::string NearestChatCommand(absl::string_view wrong) {
  std::vector<std::string> names;
  for (const auto& [name, command] : kNames) names.emplace_back(name);
  return flags::DidYouMean(wrong.substr(0, wrong.find_first_of(" \t\n")), names);
}

ChatInput ReadChatInput(absl::string_view line) {
  const absl::string_view text = absl::StripAsciiWhitespace(line);
  if (text.empty()) return {};
  if (absl::StartsWith(text, "//")) return {ChatCommand::kMessage, std::string(text.substr(1))};
  if (text[0] != '/') return {ChatCommand::kMessage, std::string(text)};
  const absl::string_view name = text.substr(0, text.find_first_of(" \t\n"));
  const absl::string_view rest = absl::StripAsciiWhitespace(text.substr(name.size()));
  for (const auto& [known, command] : kNames) {
    const bool takes_text = command == ChatCommand::kSystem;
    if (name == known && (takes_text || rest.empty())) return {command, std::string(rest)};
  }
  return {ChatCommand::kUnknown, std::string(text)};
}

}  // namespace tandem::client
