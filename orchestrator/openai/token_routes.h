// POST /tokenize and /detokenize, with the fields and answers of vLLM: their bodies as messages, and
// the Generator's answers as bodies.
//
// Thread safety: pure functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/json.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// {"model", "prompt", "add_special_tokens", "return_token_strs"}. INVALID_ARGUMENT names the field.
// NOT_FOUND: another model than `model_name`.
absl::StatusOr<v1::TokenizeRequest> ParseTokenize(const base::JsonValue& body,
                                                  absl::string_view model_name);
// {"count", "max_model_len", "tokens"} and, with token_bytes, "token_strs".
std::string TokenizeJson(const v1::TokenizeReply& reply, bool with_texts);

// {"model", "tokens"}
absl::StatusOr<v1::DetokenizeRequest> ParseDetokenize(const base::JsonValue& body,
                                                      absl::string_view model_name);
// {"prompt"}
std::string DetokenizeJson(const v1::DetokenizeReply& reply);

}  // namespace tandem::orchestrator
