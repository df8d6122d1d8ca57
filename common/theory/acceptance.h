// alpha, the chance that a candidate is accepted. It is computed from the distributions p (target)
// and q (draft), or estimated from counts. Also what lenience changes.
//
// Sources: Leviathan et al. 2023 (arXiv 2211.17192), theorem 3.5, corollary 3.6 and appendix A.5;
// Daliri, Musco, Suresh 2024, "Coupling without communication and drafter-invariant speculative
// decoding" (arXiv 2408.07978) for draws with shared noise.
//
// All p and q: one probability a token, at least 0, that sum to 1; as many in both.
//
// Thread safety: pure functions. Spans of different lengths, and a leniency outside its range, are
// a CHECK.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace tandem::theory {

// alpha for a candidate drawn from q under the speculative rule: sum over x of min(p(x), q(x)),
// which is 1 less the total variation distance. Theorem 3.5, corollary 3.6. No exact rule reaches
// more for one candidate.
double SampledAcceptance(absl::Span<const double> p, absl::Span<const double> q);

// The same under the lenient rule: sum of min(p(x) / l, q(x)), appendix A.5. `leniency` l: above 0,
// to 1.
double LenientAcceptance(absl::Span<const double> p, absl::Span<const double> q, double leniency);

// alpha for the most likely token of q (ties to the lowest id), proposed as one-hot: p(argmax q).
double OneHotAcceptance(absl::Span<const double> p, absl::Span<const double> q);

// alpha if both sides draw by a Gumbel race with the same noise, and the candidate is accepted when
// the draws are equal: sum over x of 1 / sum over y of max(p(y)/p(x), q(y)/q(x)), over the x that
// both can draw. Between (1 - d) / (1 + d) and 1 - d, with d the total variation distance. O(n log
// n).
double CoupledAcceptance(absl::Span<const double> p, absl::Span<const double> q);

// The distribution of the text under the lenient rule with one candidate drawn from q: min(q, p /
// l), plus norm((p - q)+) with the probability that is left. No token gets more than p(x) / l:
// where p >= q, it gets no more than under l = 1, which is p; elsewhere it gets min(q, p / l). The
// distribution is p for l = 1 alone.
std::vector<double> LenientOutput(absl::Span<const double> p, absl::Span<const double> q,
                                  double leniency);

// The maximum likelihood estimate of alpha: accepted / (accepted + rounds that ended by a
// rejection). A round tests candidates until one is rejected or all stand, so these are all the
// tests that there were. accepted / drafted is not alpha: it counts candidates that no test saw. 0
// where nothing was tested.
double EstimateAlpha(uint64_t accepted, uint64_t rejected_rounds);

}  // namespace tandem::theory
