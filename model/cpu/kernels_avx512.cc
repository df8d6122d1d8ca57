// Compiled with AVX-512 (F); called only where the processor has it.
#include <immintrin.h>

#include "model/cpu/kernels_template.h"

namespace tandem::model::cpu {
namespace {

struct Avx512 {
  using Type = __m512;
  static constexpr int kLanes = 16;
  static constexpr int kMaxRows = 8;
  static constexpr int kMaxSums = 12;  // pairs of registers
  static constexpr int kBlockBytes = 0;
  static constexpr int kAheadWords = 1024;

  static TANDEM_KERNEL Type Zero() { return _mm512_setzero_ps(); }
  static TANDEM_KERNEL Type Broadcast(float x) { return _mm512_set1_ps(x); }
  static TANDEM_KERNEL Type Load(const float* p) { return _mm512_loadu_ps(p); }
  static TANDEM_KERNEL Type LoadIntegers(const int32_t* p) {
    return _mm512_cvtepi32_ps(_mm512_loadu_si512(p));
  }
  static TANDEM_KERNEL void Store(float* p, Type x) { _mm512_storeu_ps(p, x); }
  static TANDEM_KERNEL Type Fma(Type a, Type b, Type c) { return _mm512_fmadd_ps(a, b, c); }
  static TANDEM_KERNEL Type Add(Type a, Type b) { return _mm512_add_ps(a, b); }
  static TANDEM_KERNEL Type Sub(Type a, Type b) { return _mm512_sub_ps(a, b); }
  static TANDEM_KERNEL Type Mul(Type a, Type b) { return _mm512_mul_ps(a, b); }
  static TANDEM_KERNEL Type Div(Type a, Type b) { return _mm512_div_ps(a, b); }
  static TANDEM_KERNEL Type Min(Type a, Type b) { return _mm512_min_ps(a, b); }
  static TANDEM_KERNEL Type Max(Type a, Type b) { return _mm512_max_ps(a, b); }
  static TANDEM_KERNEL void LoadHalves(const uint32_t* p, Type* low, Type* high) {
    __m512i words = _mm512_loadu_si512(p);
    *low = _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
    *high = _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(-65536)));
  }
  static TANDEM_KERNEL Type LoadFloat16(const uint32_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static TANDEM_KERNEL Type ScaleByPowerOf2(Type x, Type magic) {
    __m512i n = _mm512_slli_epi32(_mm512_castps_si512(magic), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), n));
  }
};

}  // namespace

const Kernels kAvx512Kernels =
    MakeKernels<Avx512>("avx512", &kAvx2Int8Kernels, &kAvx2GroupedKernels);

}  // namespace tandem::model::cpu
