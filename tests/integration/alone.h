// What a target says by itself, one token a step, with neither service nor draft: what the services
// are held against.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/sampling/parameters.h"
#include "model/language_model.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::testing {

struct AloneOptions {
  sampling::SamplingParameters sampling;  // stop_token_ids end the text
  uint64_t seed = 0;                      // of plain decoding's noise; no matter at temperature 0
  uint32_t sample_index = 0;
  uint32_t max_tokens = 1;
  uint32_t vocabulary_size = 0;
};

// The output of plain decoding: rules greedy and coupled must give the same, whatever the draft
// does.
std::vector<uint32_t> PlainAlone(model::LanguageModel& model, absl::Span<const uint32_t> prompt,
                                 const AloneOptions& options);

// The logits after each of `tokens`, one row each, as the model gives them.
std::vector<std::vector<float>> RowsAlone(model::LanguageModel& model,
                                          absl::Span<const uint32_t> tokens);

// The request that asks the services for the same: rule coupled, `draft_tokens` draft tokens per
// round.
v1::GenerateRequest CoupledRequest(absl::Span<const uint32_t> prompt, const AloneOptions& options,
                                   uint32_t draft_tokens);

}  // namespace tandem::testing
