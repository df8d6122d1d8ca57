// The prompt of a conversation that came over HTTP.
//
// Thread safety: a pure function.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace tandem::tokenizer {
class ChatTemplate;
}

namespace tandem::orchestrator {

struct Conversation;

// Token ids by the model's template; null: it has none. `max_bytes`: what cannot fit into the context
// is not tokenised; 0: nobody knows. INVALID_ARGUMENT names the field (error.h).
absl::StatusOr<std::vector<uint32_t>> ChatIds(const Conversation& conversation,
                                              const tokenizer::ChatTemplate* chat_template,
                                              uint64_t max_bytes);

}  // namespace tandem::orchestrator
