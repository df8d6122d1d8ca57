// A draft's q as it travels: few tokens, integer weights. A sampling draft rounds first and draws
// after, from exactly these weights; that is what makes a sparse, rounded q exact.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/sampling/distribution.h"

namespace tandem::sampling {

inline constexpr int kMaxSparseEntries = 64;

// q(ids[j]) = weights[j] / sum(weights). Distinct ids, in the order of falling weight; weights 1 to
// 65535.
struct SparseDistribution {
  std::vector<uint32_t> ids;
  std::vector<uint32_t> weights;

  double operator()(uint32_t token) const;  // 0 where there is no entry
};

// The `max_entries` largest probabilities of q (1 to kMaxSparseEntries; ties to the lower id),
// scaled so that the largest weight is 65535 and none is 0.
SparseDistribution Sparsify(const Distribution& q, int max_entries);

// Draws from exactly the integer weights. u in [0, 1).
uint32_t Draw(const SparseDistribution& q, double u);

// What a receiver checks before it trusts q for its draft token: as many weights as ids, 1 to
// kMaxSparseEntries of them, ids distinct and below vocabulary_size, weights 1 to 65535,
// q(draft token) > 0. INVALID_ARGUMENT says which of these fails.
absl::Status ValidateFor(const SparseDistribution& q, uint32_t candidate, uint32_t vocabulary_size);

}  // namespace tandem::sampling
