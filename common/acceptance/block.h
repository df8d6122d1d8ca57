// Block verification: the block is tested as a whole, so that a draft token which alone would be
// rejected may stand by what comes after it. Never shorter on average than the speculative rule,
// and as exact. Sun et al. 2024, "Block verification accelerates speculative decoding" (arXiv
// 2403.10444), algorithm 2:
//
//   r_0 = 1,  r_i = min(1, r_{i-1} p_i(x_i) / q_i(x_i))
//   Z_i = sum over x of (r_i p_{i+1}(x) - q_{i+1}(x))+
//   h_i = Z_i / (Z_i + 1 - r_i)  for 0 < i < K,   h_K = r_K
//
// The block ends at the LARGEST i with u_i < h_i, at 0 if there is none; what follows is drawn from
// norm((r_i p_{i+1} - q_{i+1})+), or from p_{K+1} after a whole block. h_i holds only for the block
// as it was verified: cut shorter, it must be judged again. The tests look past the end of what
// stands, so their uniforms must not be used by the next round (random::RoundKey::committed).
//
// Where nothing is left to draw from (Z_i = 0): with r_i < 1 the block cannot end at i and h_i = 0;
// with r_i = 1 it could only go on, so h_i = 1 and draft token i + 1 stands as well, r_{i+1} = 1.
//
// Thread safety: pure functions. Randomness is a parameter.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/acceptance/rule.h"

namespace tandem::acceptance {

// Shapes as in JudgeSpeculative. Entry i carries h_i (entry 0: 1) and what follows if the block
// ends at i; no next token where nothing is left to draw from.
std::vector<Entry> JudgeBlock(absl::Span<const sampling::Distribution> p,
                              absl::Span<const uint32_t> candidates,
                              absl::Span<const sampling::SparseDistribution* const> q,
                              absl::Span<const double> recovered_uniforms, double bonus_uniform);

// The largest i with u_i < h_i; 0 if there is none. uniforms[i] tests entry i + 1. CHECKs that the
// entry there has a next token.
Decision DecideBlock(absl::Span<const Entry> entries, absl::Span<const double> uniforms);

// What ValidateEntries leaves to the rule: that whatever the uniforms are, the block ends at an
// entry with a next token. One without must have h = 0 (but the root, which needs no test), or one
// with h = 1 after it. `entries` is not empty.
absl::Status ValidateBlockEnds(absl::Span<const Entry> entries);

}  // namespace tandem::acceptance
