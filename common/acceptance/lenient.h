// The lenient rule: like the speculative one, but a draft token is forgiven up to a factor 1/l.
// Blocks get longer. It is NOT exact: a token comes with a probability between the part of p that
// the residual keeps and p(x)/l. So no token comes with more than p(x)/l, and none that p rules
// out. With l = 1 it is the speculative rule, and greedy at temperature 0, except for ties, of
// which any stands. Leviathan et al. 2023 (arXiv 2211.17192), appendix A.5.
//
// Thread safety: pure functions. Randomness is a parameter.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/acceptance/rule.h"

namespace tandem::acceptance {

// Shapes as in JudgeSpeculative, 0 < leniency <= 1 (a CHECK). A draft token is accepted with
// probability min(1, p(x) / (leniency q(x))); what follows a rejection is drawn from norm((p -
// q)+).
std::vector<Entry> JudgeLenient(absl::Span<const sampling::Distribution> p,
                                absl::Span<const uint32_t> candidates,
                                absl::Span<const sampling::SparseDistribution* const> q,
                                double leniency, absl::Span<const double> recovered_uniforms,
                                double bonus_uniform);

// At temperature 0, with p as it is at temperature 1: a draft token is accepted when p(x) >=
// leniency
// * max p, and what follows is always argmax p, ties to the lowest id. With no draft tokens that is
// plain greedy decoding. Accept probabilities are 0 or 1; needs no random number.
std::vector<Entry> JudgeLenientGreedy(absl::Span<const sampling::Distribution> p,
                                      absl::Span<const uint32_t> candidates, double leniency);

}  // namespace tandem::acceptance
