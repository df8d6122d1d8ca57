// Compiled with AVX-512 (F, VNNI); called only where the processor has both. Plain loops and
// intrinsics only, as in kernels_template.h.
#include <immintrin.h>

#include "model/cpu/grouped.h"
#include "model/cpu/grouped_dispatch.h"

namespace tandem::model::cpu {
namespace {

#define TANDEM_KERNEL inline __attribute__((always_inline))

// Weights are asked for so many bytes before they are used: several rows fill the processor's
// window with arithmetic, so it looks less far ahead by itself than memory takes.
constexpr int kAhead = 4096;

// Up to so many rows have their sums in registers.
constexpr int kRowsInRegisters = 5;

template <ScaleType kScales>
TANDEM_KERNEL __m512 Scales(const uint8_t* from, int half) {
  if constexpr (kScales == ScaleType::kFloat16) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from) + half));
  } else {
    return _mm512_loadu_ps(reinterpret_cast<const float*>(from) + half * 16);
  }
}

TANDEM_KERNEL __m512i Four(const int8_t* x) {
  int32_t four;
  __builtin_memcpy(&four, x, sizeof(four));
  return _mm512_set1_epi32(four);
}

// The instruction takes one factor as unsigned: weights are stored so, and the offset's part is in
// the number from which the sum starts.
template <Integers kIntegers>
TANDEM_KERNEL __m512i Start(const RowGroup& group) {
  if constexpr (kIntegers == Integers::kInt8) return _mm512_set1_epi32(group.start_8);
  if constexpr (kIntegers == Integers::kInt4Centered) return _mm512_set1_epi32(group.start_4);
  return _mm512_setzero_si512();
}

template <Integers kIntegers, ScaleType kScales, int R>
void RowsOf(const GroupedArgs& args, float (*out)[32]) {
  constexpr GroupLayout kLayout{kIntegers, kScales};
  constexpr bool kInRegisters = R <= kRowsInRegisters;
  __m512 sums[kInRegisters ? R : 1][2];
// Unrolled here, too, or GCC keeps the sums of more than two rows in memory.
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      if constexpr (kInRegisters) {
        sums[r][half] = _mm512_setzero_ps();
      } else {
        _mm512_storeu_ps(out[r] + 16 * half, _mm512_setzero_ps());
      }
    }
  }
  const uint8_t* panel = args.panel;
  const RowGroup* rows = args.x;
  for (int group = 0; group < args.groups; ++group, rows += R) {
    const uint8_t* weights = panel + kLayout.header_bytes();
    for (int line = 0; line < kLayout.group_bytes(); line += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(panel) + kAhead + line, _MM_HINT_T0);
    }
    __m512i products[R][2];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      products[r][0] = products[r][1] = Start<kIntegers>(rows[r]);
    }
    if constexpr (kIntegers == Integers::kInt8) {
#pragma GCC unroll 8
      for (int four = 0; four < 8; ++four) {
        const __m512i first = _mm512_loadu_si512(weights + four * 128);
        const __m512i second = _mm512_loadu_si512(weights + four * 128 + 64);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          const __m512i value = Four(rows[r].integers + four * 4);
          products[r][0] = _mm512_dpbusd_epi32(products[r][0], first, value);
          products[r][1] = _mm512_dpbusd_epi32(products[r][1], second, value);
        }
      }
    } else {
      const __m512i low = _mm512_set1_epi8(0x0f);
#pragma GCC unroll 4
      for (int pair = 0; pair < 4; ++pair) {
        const __m512i first = _mm512_loadu_si512(weights + pair * 128);
        const __m512i second = _mm512_loadu_si512(weights + pair * 128 + 64);
        const __m512i first_low = _mm512_and_si512(first, low);
        const __m512i second_low = _mm512_and_si512(second, low);
        const __m512i first_high = _mm512_and_si512(_mm512_srli_epi32(first, 4), low);
        const __m512i second_high = _mm512_and_si512(_mm512_srli_epi32(second, 4), low);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          const __m512i value = Four(rows[r].integers + pair * 8);
          products[r][0] = _mm512_dpbusd_epi32(products[r][0], first_low, value);
          products[r][1] = _mm512_dpbusd_epi32(products[r][1], second_low, value);
        }
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          const __m512i value = Four(rows[r].integers + pair * 8 + 4);
          products[r][0] = _mm512_dpbusd_epi32(products[r][0], first_high, value);
          products[r][1] = _mm512_dpbusd_epi32(products[r][1], second_high, value);
        }
      }
    }
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const __m512 scales = Scales<kScales>(panel, half);
      __m512 minimums = _mm512_setzero_ps();
      if constexpr (kLayout.has_minimum()) {
        minimums = Scales<kScales>(panel + kLayout.scale_bytes(), half);
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const RowGroup& of_row = rows[r];
        float* const place = out[r] + 16 * half;
        __m512 sum;
        if constexpr (kInRegisters) {
          sum = sums[r][half];
        } else {
          sum = _mm512_loadu_ps(place);
        }
        const __m512 scale = _mm512_mul_ps(scales, _mm512_set1_ps(of_row.scale));
        sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products[r][half]), scale, sum);
        if constexpr (kLayout.has_minimum()) {
          sum = _mm512_fmadd_ps(minimums, _mm512_set1_ps(of_row.scaled_sum), sum);
        }
        if constexpr (kInRegisters) {
          sums[r][half] = sum;
        } else {
          _mm512_storeu_ps(place, sum);
        }
      }
    }
    panel += kLayout.group_bytes();
  }
  if constexpr (kInRegisters) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) _mm512_storeu_ps(out[r] + 16 * half, sums[r][half]);
    }
  }
}

struct Way {
  template <Integers kIntegers, ScaleType kScales, int R>
  static void Rows(const GroupedArgs& args, float (*out)[32]) {
    RowsOf<kIntegers, kScales, R>(args, out);
  }
};

void Quantize(const float* x, int k, RowGroup* groups, int stride) {
  kAvx2GroupedKernels.quantize(x, k, groups, stride);
}

}  // namespace

const GroupedKernels kAvx512VnniGroupedKernels = {"avx512-vnni", Quantize,
                                                  GroupedDispatch<Way>::Multiply};

}  // namespace tandem::model::cpu
