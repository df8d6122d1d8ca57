// Checks the options of a request for sampling, the end of its text and log probabilities, and
// fills in the model's defaults.
//
// Thread safety: pure functions.
#pragma once

#include "absl/status/status.h"
#include "orchestrator/generate/request_validation.h"
#include "orchestrator/request/request.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// Each function fills in its part of `to`. INVALID_ARGUMENT names the field.

// Fills in to.stop_strings and to.sampling, with its stop_token_ids.
absl::Status FillSampling(const v1::GenerateRequest& request, const ModelFacts& model,
                          GenerationRequest& to);
absl::Status FillLogprobs(const v1::GenerateRequest& request, GenerationRequest& to);

}  // namespace tandem::orchestrator
