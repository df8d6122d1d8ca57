// How many candidates come of a chain that ends where its draft is in doubt, and how many are accepted, by the
// confidence at which it ends: running means that forget.
//
// What a draft says of its candidates may be far from the chance that they are accepted: at temperature 0 the demo
// draft doubts too much. So nothing is computed from the confidence itself.
//
// Plain value, not thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "orchestrator/draft/length/draft_shapes.h"
#include "orchestrator/draft/length/shape_sums.h"

namespace tandem::orchestrator {

class ConfidentEstimate {
 public:
  // A round asked for such a chain. One that was late counts with 0 and 0.
  void Observe(uint32_t shape, uint32_t came, uint32_t accepted);

  // Whether any was asked for.
  bool empty() const;
  // Expected tokens of a round, and candidates that come. What was not seen yet is expected to be as with the nearest
  // confidence that was, and as `before` says where there is none.
  double Tokens(uint32_t shape, double before) const;
  double TokensError(uint32_t shape) const;  // standard deviation, relative
  double Candidates(uint32_t shape, double before) const;

 private:
  static constexpr double kPriorWeight = 8;  // rounds

  // The mean of what `value` adds up, 0 or more of it a round.
  template <typename Value>
  double Mean(uint32_t shape, double before, Value value) const;

  std::array<ShapeSums, kConfidences.size()> sums_{};
};

}  // namespace tandem::orchestrator
