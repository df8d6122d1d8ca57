// What is left of p once q has had its share: (r p - q)+. If a block ends before its length, the
// rules that accept by a ratio draw the next token from it, normalised. Leviathan et al. 2023
// (arXiv 2211.17192), algorithm 1, with r = 1; Sun et al. 2024 (arXiv 2403.10444), algorithm 2,
// with r the share of p that the block so far has left.
//
// A draft token without q (null) is one-hot: q is 1 at the draft token and 0 elsewhere.
//
// Thread safety: pure functions and a view.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "common/sampling/distribution.h"
#include "common/sampling/sparse.h"

namespace tandem::acceptance {

// q(draft token), above 0 (a CHECK); 1 for a null q.
double CandidateProbability(uint32_t candidate, const sampling::SparseDistribution* q);

// (scale * p - q)+, a view of p. q has at most sampling::kMaxSparseEntries (a CHECK).
class Residual {
 public:
  Residual(const sampling::Distribution& p, uint32_t candidate,
           const sampling::SparseDistribution* q, double scale = 1);

  // The sum, added up in the order of ids. 0: nothing is left, so nothing can be drawn.
  double Sum() const;

  // Draws from it, normalised, by inverse distribution function, ids ascending. Nothing when Sum()
  // is 0. u in [0, 1).
  std::optional<uint32_t> Draw(double u) const;

 private:
  // Calls visit(place in p, residual there) in the order of ids, until it returns true.
  template <typename Visit>
  void Walk(Visit visit) const;
  void Lower(uint32_t token, double by);

  const sampling::Distribution& p_;
  const double scale_;
  // Places in p where q has something, ascending, and what is left there.
  std::array<std::pair<size_t, double>, sampling::kMaxSparseEntries> lowered_;
  size_t count_ = 0;
};

// Residual(p, draft token, q).Draw(u): what follows a rejection under the speculative rule.
std::optional<uint32_t> DrawResidual(const sampling::Distribution& p, uint32_t candidate,
                                     const sampling::SparseDistribution* q, double u);

}  // namespace tandem::acceptance
