// alpha, the chance that a draft token is accepted, estimated from counts (Leviathan et al. 2023,
// arXiv 2211.17192).
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>

namespace tandem::theory {

// The maximum likelihood estimate of alpha: accepted / (accepted + rounds that ended by a
// rejection). A round tests draft tokens until one is rejected or all stand, so these are all the
// tests that there were. accepted / drafted is not alpha: it counts draft tokens that no test saw.
// 0 where nothing was tested.
double EstimateAlpha(uint64_t accepted, uint64_t rejected_rounds);

}  // namespace tandem::theory
