// What is done to logits before they become probabilities: bias, bans, minimum tokens, penalties.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/sampling/parameters.h"

namespace tandem::sampling {

class TokenHistory;

// The first `vocabulary_size` logits (padding dropped) after, in this order,
//   bias                logit + bias
//   bans                -infinity for banned tokens, and for all but the allowed ones
//   minimum tokens      -infinity for stop_token_ids while history has fewer output tokens
//   repetition penalty  of each token in prompt or output: logit / penalty when it is positive,
//                       else logit * penalty (Keskar et al. 2019, arXiv 1909.05858, section 4.1)
//   presence penalty    logit - penalty, of each token in the output
//   frequency penalty   logit - penalty * count, of each token in the output
// Each logit is computed in double and rounded to float once. A finite one stays finite (the
// nearest that a float holds), so that no parameter turns a sound row into a model failure. A logit
// to which nothing applies keeps its bits, a NaN or an infinity too. Ids at and above
// vocabulary_size in lists are ignored; the services refuse them earlier. May leave no finite
// logit; MakeDistribution then answers empty.
std::vector<float> ProcessLogits(absl::Span<const float> logits, uint32_t vocabulary_size,
                                 const SamplingParameters& parameters, const TokenHistory& history);

// The same into a vector that the caller keeps from row to row: half a megabyte for 128k tokens,
// which is dear to ask of the system each time.
void ProcessLogitsInto(absl::Span<const float> logits, uint32_t vocabulary_size,
                       const SamplingParameters& parameters, const TokenHistory& history,
                       std::vector<float>& processed);

// Whether ProcessLogits may change anything at this position. If not, nobody has to copy a row.
bool ChangesLogits(const SamplingParameters& parameters, const TokenHistory& history);

}  // namespace tandem::sampling
