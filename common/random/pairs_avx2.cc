#include <immintrin.h>

#include "common/random/pair_lanes.h"

namespace tandem::random {
namespace {

struct Avx2Way {
  using Words = uint64_t __attribute__((vector_size(32)));
  using Doubles = double __attribute__((vector_size(32)));
  static Words Multiply(Words a, Words b) {
    return reinterpret_cast<Words>(
        _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
  }
  // Unpacking works on halves of 128 bits: it makes pairs 0 and 1 out of lanes 0 and 2.
  static Words Sequence() { return Words{0, 2, 1, 3}; }
  static void Interleave(Doubles a, Doubles b, double* to) {
    _mm256_storeu_pd(to, _mm256_unpacklo_pd(a, b));
    _mm256_storeu_pd(to + 4, _mm256_unpackhi_pd(a, b));
  }
};

}  // namespace

void FillPairsAvx2(const PairKey& key, uint32_t first, double* numbers) {
  PairLanes<Avx2Way>::Fill(key, first, numbers);
}

}  // namespace tandem::random
