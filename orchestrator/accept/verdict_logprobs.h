// Checks the log probabilities in a verdict, and picks those of the committed tokens.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/acceptance/rule.h"
#include "orchestrator/request/request.h"

namespace tandem::orchestrator {

// INVALID_ARGUMENT says what is wrong with `nodes`, the log probabilities that came with `entries`.
// The entries were checked before. Valid nodes fulfil these conditions:
//
// - There is one node for each entry.
// - A node has a draft token's log probability if a draft token follows, and its next token's if
//   the entry has one.
// - A node has up to `max_top` alternatives, whose tokens are below vocabulary_size.
// - A log probability is at most 0 (rounding apart) and not NaN.
//
// `parents`: of a tree (CandidateTree::parents); empty: the draft tokens are a chain.
absl::Status CheckLogprobs(absl::Span<const uint32_t> parents,
                           absl::Span<const acceptance::Entry> entries,
                           absl::Span<const sampling::NodeLogprobs> nodes, uint32_t max_top,
                           uint32_t vocabulary_size);

// The same check for prompt tokens. Each node has the log probability of its draft token, which is
// the prompt's token.
absl::Status CheckPromptLogprobs(absl::Span<const sampling::NodeLogprobs> nodes, uint32_t max_top,
                                 uint32_t vocabulary_size);

// The log probabilities of the tokens that `decision` commits: the accepted draft tokens and the
// token after them. `nodes` passed CheckLogprobs.
std::vector<TokenLogprobs> CommittedLogprobs(const acceptance::Decision& decision,
                                             std::vector<sampling::NodeLogprobs> nodes);

}  // namespace tandem::orchestrator
