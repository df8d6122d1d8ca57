// Checks the options of a request for sampling and the end of its text, and fills in the model's
// defaults.
//
// Thread safety: pure functions.
#pragma once

#include "absl/status/status.h"
#include "orchestrator/generate/request_validation.h"
#include "orchestrator/request/request.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// Fills in to.stop_strings and to.sampling, with its stop_token_ids. INVALID_ARGUMENT names the
// field.
absl::Status FillSampling(const v1::GenerateRequest& request, const ModelFacts& model,
                          GenerationRequest& to);

}  // namespace tandem::orchestrator
