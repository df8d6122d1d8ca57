// The power of two choices: of two that are drawn at random, the less loaded one is taken. That is
// nearly as even as comparing all of them. And many that choose together by old reports do not all
// take the same one. Source: Mitzenmacher, "The power of two choices in randomized load balancing",
// IEEE TPDS 2001.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "common/base/check.h"
#include "common/random/random.h"

namespace tandem::orchestrator {

// Not thread-safe.
class Chooser {
 public:
  // `seed` is for the draws. Two choosers with the same seed choose alike.
  explicit Chooser(uint64_t seed) : seed_(seed) {}

  // Returns an index below `count`, which is at least 1. less(i, j) says whether i is less loaded
  // than j. Of two with equal load one is chosen at random.
  template <typename Less>
  size_t Choose(size_t count, Less less) {
    TANDEM_CHECK(count > 0);
    if (count == 1) return 0;
    const size_t first = Draw(count, 0);
    size_t second = Draw(count - 1, 1);
    if (second >= first) ++second;
    ++draws_;
    return less(second, first) ? second : first;
  }

 private:
  size_t Draw(size_t count, uint32_t position) const {
    const double uniform = random::Uniform({seed_, 0, draws_}, position, random::Purpose::kUser);
    return static_cast<size_t>(uniform * static_cast<double>(count));
  }

  const uint64_t seed_;
  uint32_t draws_ = 0;
};

}  // namespace tandem::orchestrator
