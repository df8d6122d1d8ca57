// Turns a GenerateRequest into a GenerationRequest. Everything is checked before any work begins,
// and unsupported options are refused by name. Nothing is adjusted silently.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "orchestrator/generate/prompt_facts.h"
#include "orchestrator/request/request.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// The facts that a request is checked against.
struct ModelFacts : PromptFacts {
  uint32_t max_length = 0;  // context_length, where the targets have room for less; 0: they have it
  // Output tokens of a request that sets none, where there is room for so many; 0: all the room.
  uint32_t default_max_tokens = 0;
  uint32_t vocabulary_size = 0;
  std::vector<uint32_t> eos_token_ids;
  // The sampling parameters for which a request sets no value.
  sampling::SamplingParameters default_sampling;
  // The rules that the target serves. Empty if it does not say; then it refuses what it does not
  // serve.
  std::vector<acceptance::Rule> rules;
  LengthMode length_mode = LengthMode::kAuto;  // of a request that names no length policy
  uint32_t prepare = 0;  // of a request that leaves it to policy auto, where blocks may be prepared
  // The drafters that the connected drafts offer. Empty if nobody says; then a draft refuses what
  // it does not have.
  std::vector<std::string> drafters;
  // Of these the ones that draft trees; an empty name: a draft's default one does.
  std::vector<std::string> tree_drafters;
  // Likewise those that can sample: draw from their own q.
  std::vector<std::string> sampling_drafters;
  // Of a request that names no drafter (Options::drafters); empty: the draft service's default.
  std::vector<std::string> default_drafters;
  uint32_t max_nodes = 0;  // draft tokens in a tree that the target takes; 0: it takes chains alone

  // Tokens that a text may have, prompt and output together.
  uint32_t text_length() const {
    return max_length == 0 ? context_length : std::min(context_length, max_length);
  }
  // For errors about it.
  std::string LengthWords() const;
};

// INVALID_ARGUMENT names the field, its value and its range. FAILED_PRECONDITION means that the
// model's default sampling is out of range, so no request can be served. The caller sets id and
// deadline, and the seed if the request has none.
absl::StatusOr<GenerationRequest> ValidateRequest(const v1::GenerateRequest& request,
                                                  const ModelFacts& model);

}  // namespace tandem::orchestrator
