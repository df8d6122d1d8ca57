// How much of a block stands on average, computed from its verdict alone. So rules can be compared
// on the same blocks without the noise of sampling.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "common/acceptance/rule.h"

namespace tandem::acceptance {

// E[Decide(rule, entries, u).accepted] over uniforms u, from 0 to K. `entries`: as ValidateEntries
// lets them through.
//   block       sum over i from 1 of 1 - product over j >= i of (1 - h_j)
//   the others  sum over i from 1 of product over j <= i of a_j
double ExpectedAccepted(Rule rule, absl::Span<const Entry> entries);

// Rule coupled, for a draft that runs the race of q with the target's noise: P(the target's draw is
// the candidate x | the draft's draw is x). That is 1 / sum over y of max(p(y)/p(x), q(y)/q(x)),
// divided by q(x). coupled.h has the sum over all x. q(candidate) > 0 (a CHECK). 0 if p does not
// have the candidate.
double CoupledAcceptProbability(const sampling::Distribution& p, uint32_t candidate,
                                const sampling::SparseDistribution& q);

}  // namespace tandem::acceptance
