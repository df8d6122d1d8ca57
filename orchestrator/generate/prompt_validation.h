// The part of request_validation.h that is about the prompt.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "orchestrator/generate/prompt_facts.h"
#include "orchestrator/generate/request_validation.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// Text, ids or conversation become `prompt`, within the model's vocabulary and context.
// INVALID_ARGUMENT names the field.
absl::Status FillPrompt(const v1::GenerateRequest& request, const ModelFacts& model,
                        std::vector<uint32_t>& prompt);

// The same of a prompt that is not generated from: it may be empty, longer than the context, and
// have tokens that the model does not know.
absl::StatusOr<std::vector<uint32_t>> PromptIds(const v1::TokenizeRequest& request,
                                                const PromptFacts& model);

}  // namespace tandem::orchestrator
