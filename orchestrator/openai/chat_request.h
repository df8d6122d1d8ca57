// Bodies of /v1/chat/completions as requests of the generator. docs/http.md lists the fields.
//
// Thread safety: pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/json.h"
#include "orchestrator/openai/completion_request.h"

namespace tandem::orchestrator {

class Fields;

// What a chat template makes the prompt of (common/tokenizer/chat_template.h), as JSON text.
struct Conversation {
  std::string messages;
  std::string tools;      // empty: none
  std::string arguments;  // likewise
  bool add_generation_prompt = true;
  // Further variables, for a template that mentions them.
  std::vector<std::pair<std::string, std::string>> options;
};

struct ChatRequest {
  Conversation conversation;
  CompletionRequest completion;  // without a prompt
};

// The members that make the prompt, but "tools" and what the answer is to do with them.
void ReadConversation(Fields& fields, Conversation& to);

// INVALID_ARGUMENT names the field (error.h). What only the template can know to be wrong, it says.
absl::StatusOr<ChatRequest> ParseChat(const base::JsonValue& body);

}  // namespace tandem::orchestrator
