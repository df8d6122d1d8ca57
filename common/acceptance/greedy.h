// The greedy rule: a draft token stands when it is the target's argmax. Exact for any draft, and
// the text is the target's own at temperature 0.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/acceptance/rule.h"

namespace tandem::acceptance {

// `argmax`: [K + 1], argmax[i] follows i draft tokens. `candidates`: [K]. K + 1 entries: accept
// probabilities are 0 or 1; a node whose draft token is accepted for certain cannot be the end and
// has no next token. Needs no random number.
std::vector<Entry> JudgeGreedy(absl::Span<const uint32_t> argmax,
                               absl::Span<const uint32_t> candidates);

}  // namespace tandem::acceptance
