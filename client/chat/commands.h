// What a user types in `tandem chat`: messages, and commands that begin with a slash.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tandem::client {

enum class ChatCommand : uint8_t {
  kNone,     // an empty line
  kMessage,  // `text` is the message
  kHelp,
  kReset,
  kSystem,  // `text` is the system's message; empty: there shall be none
  kUndo,
  kQuit,
  kUnknown,  // `text` is the command
};

struct ChatInput {
  ChatCommand command = ChatCommand::kNone;
  std::string text;
};

// A line without its line break; lines that were joined have line breaks. "//text" is the message
// "/text".
ChatInput ReadChatInput(absl::string_view line);

// "; did you mean /undo?" of an unknown command, or nothing.
std::string NearestChatCommand(absl::string_view wrong);

// What the commands do, a line each.
extern const char kChatCommands[];

}  // namespace tandem::client
