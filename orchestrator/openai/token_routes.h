// POST /tokenize and /detokenize, with the fields and answers of vLLM.
//
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/json.h"

namespace tandem::tokenizer {
class Tokenizer;
}

namespace tandem::orchestrator {

struct TokenRouteOptions {
  std::string model_name;       // that a request may name
  uint32_t context_length = 0;  // of the model; 0: no target has said so yet
};

// {"prompt", "add_special_tokens", "return_token_strs"} -> {"count", "max_model_len", "tokens"} and
// maybe "token_strs", as JSON text. INVALID_ARGUMENT names the field; so a text that is longer than
// any prompt may be. NOT_FOUND: another model.
absl::StatusOr<std::string> Tokenize(const base::JsonValue& body,
                                     const tokenizer::Tokenizer& tokenizer,
                                     const TokenRouteOptions& options);
// {"tokens"} -> {"prompt"}.
absl::StatusOr<std::string> Detokenize(const base::JsonValue& body,
                                       const tokenizer::Tokenizer& tokenizer,
                                       const TokenRouteOptions& options);

}  // namespace tandem::orchestrator
