// Adds a message to a conversation. Pure function.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::client {

inline void Say(absl::string_view role, absl::string_view text, v1::Conversation& conversation) {
  v1::ChatMessage& message = *conversation.add_messages();
  message.set_role(std::string(role));
  message.set_content(std::string(text));
}

}  // namespace tandem::client
