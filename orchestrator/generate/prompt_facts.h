// What a prompt is read with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// How a prompt in text becomes ids (common/tokenizer/tokenizer.h).
struct TextOptions {
  bool add_special_tokens = true;
  bool parse_special_tokens = true;
};

struct PromptFacts {
  uint32_t context_length = 0;  // tokens, prompt and output together; 0: no target has said it yet
  // Of the longest token. A text longer than the context of such tokens is refused before it is
  // tokenised. 0: unknown.
  size_t max_token_bytes = 0;
  // Turns text into ids.
  std::function<absl::StatusOr<std::vector<uint32_t>>(const std::string&, const TextOptions&)>
      encode;
  // Turns a conversation into ids. An error says which of its fields is wrong. Empty: the model has
  // no chat template.
  std::function<absl::StatusOr<std::vector<uint32_t>>(const v1::Conversation&)> encode_conversation;
};

}  // namespace tandem::orchestrator
