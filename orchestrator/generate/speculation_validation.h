// Checks the options of a request for drafts and for the rule that judges them, and fills in
// defaults.
//
// Thread safety: pure functions.
#pragma once

#include "absl/status/status.h"
#include "orchestrator/generate/request_validation.h"
#include "orchestrator/request/request.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// Fills in its part of `to`. INVALID_ARGUMENT names the field. Call it after
// messages::CheckOptions, and after to.sampling was filled in, because the temperature decides
// which rule is in force.
absl::Status FillSpeculation(const v1::GenerateRequest& request, const ModelFacts& model,
                             GenerationRequest& to);

}  // namespace tandem::orchestrator
