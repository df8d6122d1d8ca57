// Tokenize and Detokenize, for any front: a prompt's ids as Generate would make them, and their
// text.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "orchestrator/generate/prompt_facts.h"
#include "orchestrator/generate/token_bytes.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

struct TokenFacts : PromptFacts {
  TokenBytes token_bytes;
  // Turns ids into text. An error says which id there is not.
  std::function<absl::StatusOr<std::string>(absl::Span<const uint32_t>)> decode;
};

// INVALID_ARGUMENT begins with the field.
absl::StatusOr<v1::TokenizeReply> Tokenize(const v1::TokenizeRequest& request,
                                           const TokenFacts& facts);
absl::StatusOr<v1::DetokenizeReply> Detokenize(const v1::DetokenizeRequest& request,
                                               const TokenFacts& facts);

}  // namespace tandem::orchestrator
