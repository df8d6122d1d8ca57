// Compiled with AVX-512 (F, VNNI); called only where the processor has both. Plain loops and
// intrinsics only, as in kernels_template.h.
#include <immintrin.h>

#include "model/cpu/int8.h"

namespace tandem::model::cpu {
namespace {

// Several rows fill the processor's window with arithmetic, so it looks less far ahead by itself
// than memory takes: weights are asked for so many bytes before they are used.
constexpr int kAhead = 4096;

// The instruction takes one factor as unsigned: that is weight + 128, and 128 · the sum of a row's
// integers goes off in the end.
template <int R>
void Rows(const int8_t* x, size_t stride, const int32_t* row_sums, int groups, const int8_t* panel,
          int32_t (*out)[32]) {
  const __m512i offset = _mm512_set1_epi8(-128);
  __m512i low[R];
  __m512i high[R];
// Unrolled here, too, or GCC keeps the sums of more than two rows in memory.
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) low[r] = high[r] = _mm512_setzero_si512();
  for (int group = 0; group < groups; ++group) {
    const int8_t* from = panel + kInt8PanelHeader + static_cast<size_t>(group) * 128;
    _mm_prefetch(from + kAhead, _MM_HINT_T0);
    _mm_prefetch(from + kAhead + 64, _MM_HINT_T0);
    const __m512i w_low = _mm512_xor_si512(_mm512_loadu_si512(from), offset);
    const __m512i w_high = _mm512_xor_si512(_mm512_loadu_si512(from + 64), offset);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      int32_t four;
      __builtin_memcpy(&four, x + r * stride + group * kInt8Group, sizeof(four));
      const __m512i value = _mm512_set1_epi32(four);
      low[r] = _mm512_dpbusd_epi32(low[r], w_low, value);
      high[r] = _mm512_dpbusd_epi32(high[r], w_high, value);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const __m512i excess = _mm512_set1_epi32(128 * row_sums[r]);
    _mm512_storeu_si512(out[r], _mm512_sub_epi32(low[r], excess));
    _mm512_storeu_si512(out[r] + 16, _mm512_sub_epi32(high[r], excess));
  }
}

void Multiply(const int8_t* x, size_t stride, const int32_t* sums, int rows, int groups,
              const int8_t* panel, int32_t (*out)[32]) {
  switch (rows) {
    case 1:
      return Rows<1>(x, stride, sums, groups, panel, out);
    case 2:
      return Rows<2>(x, stride, sums, groups, panel, out);
    case 3:
      return Rows<3>(x, stride, sums, groups, panel, out);
    case 4:
      return Rows<4>(x, stride, sums, groups, panel, out);
    case 5:
      return Rows<5>(x, stride, sums, groups, panel, out);
    case 6:
      return Rows<6>(x, stride, sums, groups, panel, out);
    case 7:
      return Rows<7>(x, stride, sums, groups, panel, out);
    case 8:
      return Rows<8>(x, stride, sums, groups, panel, out);
  }
}

void Quantize(const float* x, int k, int8_t* out, float* scale, int32_t* sum) {
  kAvx2Int8Kernels.quantize(x, k, out, scale, sum);
}

}  // namespace

const Int8Kernels kAvx512VnniInt8Kernels = {"avx512-vnni", Quantize, Multiply};

}  // namespace tandem::model::cpu
