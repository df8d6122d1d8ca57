// A file of conversations as prompts: one JSON object per line, in the form of OpenAI's chat
// completions.
//
//   {"messages": [{"role": "user", "content": "What is a draft?"}]}
//
// Thread safety: a pure function.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::client {

// Of each line `messages`, `tools` and `chat_template_kwargs`; other members of the line, such as a
// data set's ids, are not looked at. Empty lines are skipped. The last message is not the
// assistant's, which is what a model is to write. INVALID_ARGUMENT names file, line and field,
// among them members of messages that cannot be sent.
absl::StatusOr<std::vector<v1::Conversation>> ParseConversations(absl::string_view text,
                                                                 absl::string_view file);

}  // namespace tandem::client
