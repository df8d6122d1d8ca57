#include <immintrin.h>

#include "common/sampling/exp_lanes.h"

namespace tandem::sampling {
namespace {

struct Avx2Way {
  using Doubles = double __attribute__((vector_size(32)));
  using Integers = int64_t __attribute__((vector_size(32)));
  static Doubles Load(const float* from) { return _mm256_cvtps_pd(_mm_loadu_ps(from)); }
};

}  // namespace

void ExpGroupsAvx2(const float* logits, size_t groups, double largest, double scale, double* values,
                   double* sums) {
  ExpLanes<Avx2Way>::Groups(logits, groups, largest, scale, values, sums);
}

}  // namespace tandem::sampling
