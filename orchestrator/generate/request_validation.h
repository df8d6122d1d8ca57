// From a GenerateRequest to a GenerationRequest: everything is checked before any work begins, and what
// is not served is refused by name. Nothing is adjusted silently.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "orchestrator/request/request.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// What a request is checked against.
struct ModelFacts {
  uint32_t context_length = 0;  // tokens, prompt and output together
  uint32_t vocabulary_size = 0;
  std::vector<uint32_t> eos_token_ids;
  // What holds where a request says nothing.
  sampling::SamplingParameters default_sampling;
  // That the target serves. Empty: it does not say, and refuses what it does not serve.
  std::vector<acceptance::Rule> rules;
  // That the connected drafts offer. Empty: nobody says, and a draft refuses what it does not have.
  std::vector<std::string> drafters;
  // Text to ids, special tokens added.
  std::function<absl::StatusOr<std::vector<uint32_t>>(const std::string&)> encode;
};

// INVALID_ARGUMENT names the field, its value, and what it must be. FAILED_PRECONDITION: the model's own
// default sampling is out of its range, and no request can be served. The caller fills in id and deadline,
// and the seed where the request has none.
absl::StatusOr<GenerationRequest> ValidateRequest(const v1::GenerateRequest& request,
                                                  const ModelFacts& model);

}  // namespace tandem::orchestrator
