// The part of request_validation.h that is about the prompt.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "orchestrator/generate/request_validation.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// Text, ids or conversation become `prompt`, within the model's vocabulary and context.
// INVALID_ARGUMENT names the field.
absl::Status FillPrompt(const v1::GenerateRequest& request, const ModelFacts& model,
                        std::vector<uint32_t>& prompt);

}  // namespace tandem::orchestrator
