#include <immintrin.h>

#include "common/random/pair_lanes.h"

namespace tandem::random {
namespace {

struct Avx512Way {
  using Words = uint64_t __attribute__((vector_size(64)));
  using Doubles = double __attribute__((vector_size(64)));
  static Words Multiply(Words a, Words b) {
    return reinterpret_cast<Words>(
        _mm512_mul_epu32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
  }
  // Unpacking works on quarters of 128 bits: it makes pairs 0 to 3 out of the even lanes.
  static Words Sequence() { return Words{0, 4, 1, 5, 2, 6, 3, 7}; }
  static void Interleave(Doubles a, Doubles b, double* to) {
    _mm512_storeu_pd(to, _mm512_unpacklo_pd(a, b));
    _mm512_storeu_pd(to + 8, _mm512_unpackhi_pd(a, b));
  }
};

}  // namespace

void FillPairsAvx512(const PairKey& key, uint32_t first, double* numbers) {
  PairLanes<Avx512Way>::Fill(key, first, numbers);
}

}  // namespace tandem::random
