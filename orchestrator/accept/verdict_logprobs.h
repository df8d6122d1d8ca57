// The log probabilities in a verdict: whether all that were asked for are there, and which of them belong
// to the tokens that were committed.
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

// INVALID_ARGUMENT says what is wrong with `nodes`, the log probabilities that came with `entries` (found
// good before). Right is one node an entry, with its candidate's where a candidate follows, its next
// token's where it has one, and up to `max_top` alternatives, tokens below vocabulary_size. A log
// probability is at most 0 (rounding apart) and not NaN.
absl::Status CheckLogprobs(absl::Span<const acceptance::Entry> entries,
                           absl::Span<const sampling::NodeLogprobs> nodes, uint32_t max_top,
                           uint32_t vocabulary_size);

// The same of prompt tokens: each node has its candidate's, which is the prompt's token.
absl::Status CheckPromptLogprobs(absl::Span<const sampling::NodeLogprobs> nodes, uint32_t max_top,
                                 uint32_t vocabulary_size);

// Of the tokens that `decision` commits: its accepted candidates and the token after them. `nodes` were
// found good.
std::vector<TokenLogprobs> CommittedLogprobs(const acceptance::Decision& decision,
                                             std::vector<sampling::NodeLogprobs> nodes);

}  // namespace tandem::orchestrator
