// exp of eight logits at a time: what ExpAll (elementary.h) is made of.
//
// Thread safety: all functions are pure.
#pragma once

#include <cstddef>
#include <vector>

namespace tandem::sampling {

inline constexpr size_t kExpGroup = 8;

// values[i] = exp((logits[i] - largest) * scale) for i below groups * kExpGroup, each added to
// sums[i % kExpGroup].
using ExpGroups = void (*)(const float* logits, size_t groups, double largest, double scale,
                           double* values, double* sums);

// The sum of all of a row, whose logit i was added to sums[i % kExpGroup].
inline double TotalOf(const double (&sums)[kExpGroup]) {
  return ((sums[0] + sums[2]) + (sums[4] + sums[6])) + ((sums[1] + sums[3]) + (sums[5] + sums[7]));
}

// The same bits by each instruction set that this machine has, the fastest first; the last one
// needs none in particular.
const std::vector<ExpGroups>& SupportedExpGroups();

// From their own sources, which are compiled for these instructions.
void ExpGroupsAvx2(const float* logits, size_t groups, double largest, double scale, double* values,
                   double* sums);
void ExpGroupsAvx512(const float* logits, size_t groups, double largest, double scale,
                     double* values, double* sums);

}  // namespace tandem::sampling
