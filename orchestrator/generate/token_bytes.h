// What token ids stand for, for the clients that ask for it.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// What an id stands for within a text, maybe part of a character. A special token's name; empty for
// what is not a token. Thread-safe.
using TokenBytes = std::function<std::string(uint32_t id)>;

// Sets token_bytes of each id of the message, and of the alternatives in it.
void AddTokenBytes(const TokenBytes& token_bytes, v1::Delta& to);
void AddTokenBytes(const TokenBytes& token_bytes, v1::PromptLogprobs& to);

}  // namespace tandem::orchestrator
