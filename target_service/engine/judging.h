// From the logits of a block's rows to the entries of its verdict.
//
// Thread safety: pure functions, if `judge` is one; a history is its caller's.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/acceptance/rule.h"
#include "common/sampling/logprobs.h"
#include "common/sampling/token_history.h"
#include "common/speculation/candidate_tree.h"
#include "common/speculation/sequence_settings.h"
#include "model/language_model.h"
#include "target_service/engine/engine.h"

namespace tandem::target_service {

// As acceptance::Judge.
using JudgeFunction =
    std::function<std::vector<acceptance::Entry>(const acceptance::JudgeInput& input)>;

// What is told of a row that is not a distribution, after so many tokens.
absl::Status BrokenRow(uint32_t tokens_before);

struct Judgement {
  std::vector<acceptance::Entry> entries;        // K + 1
  std::vector<sampling::NodeLogprobs> logprobs;  // as many; none when settings.logprobs is absent
};

// Rows first_row … first_row + K of `logits` follow the last of `committed` tokens and each
// draft token of `block`. `history`: the committed tokens where settings.sampling.looks_back(),
// else null; the draft tokens on the path to a row are in it while that row's p is made, and taken
// back after it. A tree's rule has trees. `vocabulary_size`: ids at and above it have p = 0.
// INTERNAL when a row is not a distribution (a NaN or an infinity in the model's output): nothing
// can be drawn from it.
//
// Rule lenient at temperature 0 judges by p at temperature 1 (acceptance::JudgeInput::greedy), and
// that is then the p of processed log probabilities.
absl::StatusOr<Judgement> JudgeRows(const JudgeFunction& judge,
                                    const speculation::SequenceSettings& settings,
                                    const speculation::CandidateTree& block, uint32_t committed,
                                    sampling::TokenHistory* history, const model::Logits& logits,
                                    int first_row, uint32_t vocabulary_size);

// The log probability of `token`, a prompt's, from the row of the token before it, and the most
// likely ones beside it. `history`: all tokens before `token` where
// settings.sampling.looks_back(), else null. settings.logprobs is not absent. INTERNAL as above.
absl::StatusOr<sampling::NodeLogprobs> JudgePromptRow(const speculation::SequenceSettings& settings,
                                                      const sampling::TokenHistory* history,
                                                      absl::Span<const float> row,
                                                      uint32_t position, uint32_t token,
                                                      uint32_t vocabulary_size);

}  // namespace tandem::target_service
