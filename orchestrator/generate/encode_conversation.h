// From a conversation on the wire to the ids of its prompt.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::tokenizer {
class ChatTemplate;
}

namespace tandem::orchestrator {

// INVALID_ARGUMENT begins with the field, as a path in Conversation, where one is wrong; else it
// says what the template did not take.
absl::StatusOr<std::vector<uint32_t>> EncodeConversation(
    const tokenizer::ChatTemplate& chat_template, const v1::Conversation& conversation);

}  // namespace tandem::orchestrator
