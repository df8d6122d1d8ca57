#include <immintrin.h>

#include "common/sampling/exp_lanes.h"

namespace tandem::sampling {
namespace {

struct Avx512Way {
  using Doubles = double __attribute__((vector_size(64)));
  using Integers = int64_t __attribute__((vector_size(64)));
  static Doubles Load(const float* from) { return _mm512_cvtps_pd(_mm256_loadu_ps(from)); }
};

}  // namespace

void ExpGroupsAvx512(const float* logits, size_t groups, double largest, double scale,
                     double* values, double* sums) {
  ExpLanes<Avx512Way>::Groups(logits, groups, largest, scale, values, sums);
}

}  // namespace tandem::sampling
