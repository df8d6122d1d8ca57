// POST /tokenize and /detokenize, with the fields and answers of vLLM: their bodies as messages,
// and the Generator's answers as bodies.
//
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/json.h"
#include "orchestrator/openai/chat_request.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

struct TokenizeBody {
  std::optional<Conversation> conversation;  // absent: the request has a text
  v1::TokenizeRequest request;               // token_bytes, and what belongs to a text
};

// {"model", "prompt", "add_special_tokens", "return_token_strs"}, or in place of the second and
// third "messages", "tools", "add_generation_prompt", "chat_template_kwargs". INVALID_ARGUMENT
// names the field. NOT_FOUND: another model than `model_name`.
absl::StatusOr<TokenizeBody> ParseTokenize(const base::JsonValue& body,
                                           absl::string_view model_name);
// {"count", "max_model_len", "tokens"} and, with token_bytes, "token_strs".
std::string TokenizeJson(const v1::TokenizeReply& reply, bool with_texts);

// {"model", "tokens"}
absl::StatusOr<v1::DetokenizeRequest> ParseDetokenize(const base::JsonValue& body,
                                                      absl::string_view model_name);
// {"prompt"}
std::string DetokenizeJson(const v1::DetokenizeReply& reply);

}  // namespace tandem::orchestrator
