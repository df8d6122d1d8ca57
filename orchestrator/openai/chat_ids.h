// The prompt of a conversation that came over HTTP.
//
// Thread safety: a pure function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace tandem::tokenizer {
class ChatTemplate;
}

namespace tandem::orchestrator {

struct Conversation;

// Token ids by the model's template; null: it has none. What cannot fit into a context of so many
// tokens, each of at most so many bytes, is not tokenised; 0: nobody knows. INVALID_ARGUMENT names
// the field (error.h).
absl::StatusOr<std::vector<uint32_t>> ChatIds(const Conversation& conversation,
                                              const tokenizer::ChatTemplate* chat_template,
                                              uint32_t context_length, size_t max_token_bytes);

}  // namespace tandem::orchestrator
