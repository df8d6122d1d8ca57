// Compiled with AVX2, FMA and F16C; called only where the processor has all three.
#include <immintrin.h>

#include "model/cpu/kernels_template.h"

namespace tandem::model::cpu {
namespace {

struct Avx2 {
  using Type = __m256;
  static constexpr int kLanes = 8;
  static constexpr int kMaxRows = 6;
  static constexpr int kAheadWords = 2048;
  static constexpr int kMaxSums = 6;
  static constexpr int kBlockBytes = 16384;  // half the first cache
  static constexpr int kBlockRows = 64;
  static constexpr int kMaxWholeRows = 2;

  static TANDEM_KERNEL Type Zero() { return _mm256_setzero_ps(); }
  static TANDEM_KERNEL Type Broadcast(float x) { return _mm256_set1_ps(x); }
  static TANDEM_KERNEL Type Load(const float* p) { return _mm256_loadu_ps(p); }
  static TANDEM_KERNEL Type LoadIntegers(const int32_t* p) {
    return _mm256_cvtepi32_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static TANDEM_KERNEL void Store(float* p, Type x) { _mm256_storeu_ps(p, x); }
  static TANDEM_KERNEL Type Fma(Type a, Type b, Type c) { return _mm256_fmadd_ps(a, b, c); }
  static TANDEM_KERNEL Type Add(Type a, Type b) { return _mm256_add_ps(a, b); }
  static TANDEM_KERNEL Type Sub(Type a, Type b) { return _mm256_sub_ps(a, b); }
  static TANDEM_KERNEL Type Mul(Type a, Type b) { return _mm256_mul_ps(a, b); }
  static TANDEM_KERNEL Type Div(Type a, Type b) { return _mm256_div_ps(a, b); }
  static TANDEM_KERNEL Type Min(Type a, Type b) { return _mm256_min_ps(a, b); }
  static TANDEM_KERNEL Type Max(Type a, Type b) { return _mm256_max_ps(a, b); }
  static TANDEM_KERNEL void LoadHalves(const uint32_t* p, Type* low, Type* high) {
    __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    *low = _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
    *high = _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(-65536)));
  }
  static TANDEM_KERNEL Type LoadFloat16(const uint32_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static TANDEM_KERNEL Type ScaleByPowerOf2(Type x, Type magic) {
    __m256i n = _mm256_slli_epi32(_mm256_castps_si256(magic), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), n));
  }
};

}  // namespace

const Kernels kAvx2Kernels = MakeKernels<Avx2>("avx2", &kAvx2Int8Kernels, &kAvx2GroupedKernels);

}  // namespace tandem::model::cpu
