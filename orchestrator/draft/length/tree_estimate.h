// How many candidates of a tree are accepted and how many come, by the shape of the tree: running means that
// forget. Plain value, not thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "orchestrator/draft/length/draft_shapes.h"
#include "orchestrator/draft/length/shape_sums.h"

namespace tandem::orchestrator {

class TreeEstimate {
 public:
  // A round asked for a tree of this shape; `came` nodes came, and `accepted` were accepted. A tree that was
  // late counts with 0 and 0.
  void Observe(uint32_t shape, uint32_t came, uint32_t accepted);

  // Expected tokens of a round with a tree of this shape. `longest_chain` is that of the longest chain: what is
  // not measured yet follows from it, and from the trees of other shapes.
  double Tokens(uint32_t shape, double longest_chain) const;
  double TokensError(uint32_t shape) const;  // standard deviation, relative
  // Expected nodes of such a tree; before any: all.
  double Nodes(uint32_t shape) const;

 private:
  static constexpr double kPriorWeight = 16;  // rounds

  std::array<ShapeSums, kTreeShapes.size()> sums_{};
};

}  // namespace tandem::orchestrator
