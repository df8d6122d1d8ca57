// The speculative rule: accept draft token x, drawn from q, with probability min(1, p(x)/q(x));
// after a rejection draw from the residual norm((p - q)+). The token that comes out follows p
// exactly, if x was drawn from this very q and the three uniforms (draft, accept, replace) are
// independent. Leviathan et al. 2023 (arXiv 2211.17192), algorithm 1 and appendix A.1; Chen et al.
// 2023 (arXiv 2302.01318), algorithm 2.
//
// A draft token without q (null) is verified as one-hot, q = 1 at the draft token: accepted with
// p(x), replaced from p without x. That is exact whatever the draft token depends on, except on the
// numbers that p's tests and draws use.
//
// Thread safety: pure functions. Randomness is a parameter.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/acceptance/residual.h"
#include "common/acceptance/rule.h"

namespace tandem::acceptance {

// min(1, p(x)/q(x)); 0 where p has no x. q(x) > 0 (a CHECK).
double AcceptProbability(const sampling::Distribution& p, uint32_t candidate,
                         const sampling::SparseDistribution* q);

// A chain of K draft tokens. p: [K + 1]; q: [K] or empty, null entries are one-hot;
// recovered_uniforms: [K], number i draws what follows if the block ends at node i; bonus_uniform
// draws from p[K].
//
// Entry i (i < K) has no next token when the block cannot end there: when draft token i is accepted
// for certain, or its residual sums to nothing, which makes it so.
std::vector<Entry> JudgeSpeculative(absl::Span<const sampling::Distribution> p,
                                    absl::Span<const uint32_t> candidates,
                                    absl::Span<const sampling::SparseDistribution* const> q,
                                    absl::Span<const double> recovered_uniforms,
                                    double bonus_uniform);

// The same with each ratio p/q made larger by 1/leniency, 0 < leniency <= 1 (a CHECK): what the
// speculative rule (leniency 1, exact) and the lenient one (lenient.h) share.
std::vector<Entry> JudgeByRatio(absl::Span<const sampling::Distribution> p,
                                absl::Span<const uint32_t> candidates,
                                absl::Span<const sampling::SparseDistribution* const> q,
                                double leniency, absl::Span<const double> recovered_uniforms,
                                double bonus_uniform);

}  // namespace tandem::acceptance
