// What a request says about drafts and about the rule that judges them: checked, and with defaults where it says
// nothing.
//
// Thread safety: pure functions.
#pragma once

#include "absl/status/status.h"
#include "orchestrator/generate/request_validation.h"
#include "orchestrator/request/request.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// Fills in its part of `to`; INVALID_ARGUMENT names the field.
// Looks at to.sampling, which is filled in before: which rule is in force depends on the temperature.
absl::Status TakeSpeculation(const v1::GenerateRequest& request, const ModelFacts& model,
                             GenerationRequest& to);

}  // namespace tandem::orchestrator
