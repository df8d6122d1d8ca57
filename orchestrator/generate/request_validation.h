// Turns a GenerateRequest into a GenerationRequest. Everything is checked before any work begins,
// and unsupported options are refused by name. Nothing is adjusted silently.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "orchestrator/request/request.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// How a prompt in text becomes ids (common/tokenizer/tokenizer.h).
struct TextOptions {
  bool add_special_tokens = true;
  bool parse_special_tokens = true;
};

// The facts that a request is checked against.
struct ModelFacts {
  uint32_t context_length = 0;  // tokens, prompt and output together
  uint32_t max_length = 0;      // the same, where the targets have room for less; 0: they have it
  // Output tokens of a request that sets none, where there is room for so many; 0: all the room.
  uint32_t default_max_tokens = 0;
  uint32_t vocabulary_size = 0;
  std::vector<uint32_t> eos_token_ids;
  // The sampling parameters for which a request sets no value.
  sampling::SamplingParameters default_sampling;
  // The rules that the target serves. Empty if it does not say; then it refuses what it does not
  // serve.
  std::vector<acceptance::Rule> rules;
  // The drafters that the connected drafts offer. Empty if nobody says; then a draft refuses what
  // it does not have.
  std::vector<std::string> drafters;
  // Of the longest token. A text longer than the context of such tokens is refused before it is
  // tokenised. 0: not known.
  size_t max_token_bytes = 0;
  // Turns text into ids.
  std::function<absl::StatusOr<std::vector<uint32_t>>(const std::string&, const TextOptions&)>
      encode;
  // Turns a conversation into ids. An error says which of its fields is wrong. Empty: the model has
  // no chat template.
  std::function<absl::StatusOr<std::vector<uint32_t>>(const v1::Conversation&)> encode_conversation;

  // Tokens that a text may have, prompt and output together.
  uint32_t text_length() const {
    return max_length == 0 ? context_length : std::min(context_length, max_length);
  }
};

// INVALID_ARGUMENT names the field, its value and its range. FAILED_PRECONDITION means that the
// model's default sampling is out of range, so no request can be served. The caller sets id and
// deadline, and the seed if the request has none.
absl::StatusOr<GenerationRequest> ValidateRequest(const v1::GenerateRequest& request,
                                                  const ModelFacts& model);

}  // namespace tandem::orchestrator
