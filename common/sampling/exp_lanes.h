// exp over the lanes of one instruction set, for the source that is compiled for it.
#pragma once

#include <cstring>

#include "common/sampling/elementary_formulas.h"
#include "common/sampling/exp_groups.h"

namespace tandem::sampling {

// `Way` is of the source's own, because code for one instruction set is not shared with another's:
// Doubles and Integers, vectors of as many double and int64_t, and Load(floats), which widens as
// many.
template <class Way>
struct ExpLanes {
  using Doubles = typename Way::Doubles;
  using Integers = typename Way::Integers;
  static constexpr size_t kLanes = sizeof(Doubles) / sizeof(double);
  static constexpr size_t kVectors = kExpGroup / kLanes;

  static void Groups(const float* logits, size_t groups, double largest, double scale,
                     double* values, double* sums) {
    Doubles sum[kVectors];
    std::memcpy(sum, sums, sizeof(sum));
    for (size_t i = 0; i < groups * kExpGroup; i += kExpGroup) {
      for (size_t v = 0; v < kVectors; ++v) {
        const size_t at = i + v * kLanes;
        const Doubles e = ExpFormula<Doubles, Integers>((Way::Load(logits + at) - largest) * scale);
        std::memcpy(values + at, &e, sizeof(e));
        sum[v] += e;
      }
    }
    std::memcpy(sums, sum, sizeof(sum));
  }
};

}  // namespace tandem::sampling
