// What a request says about how its tokens are drawn, where its text ends, and which log probabilities it
// wants: checked, and with the model's defaults where it says nothing.
//
// Thread safety: pure functions.
#pragma once

#include "absl/status/status.h"
#include "orchestrator/generate/request_validation.h"
#include "orchestrator/request/request.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// Each fills in its part of `to`; INVALID_ARGUMENT names the field.

// to.stop_strings and to.sampling, stop_token_ids among it.
absl::Status TakeSampling(const v1::GenerateRequest& request, const ModelFacts& model,
                          GenerationRequest& to);
absl::Status TakeLogprobs(const v1::GenerateRequest& request, GenerationRequest& to);

}  // namespace tandem::orchestrator
