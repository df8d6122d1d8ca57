// Compiled with AVX2, FMA and F16C; called only where the processor has all. Plain loops and
// intrinsics only, as in kernels_template.h.
#include <immintrin.h>

#include "model/cpu/grouped.h"
#include "model/cpu/grouped_dispatch.h"
#include "model/cpu/int8.h"

namespace tandem::model::cpu {
namespace {

#define TANDEM_KERNEL inline __attribute__((always_inline))

// As in grouped_avx512vnni.cc.
constexpr int kAhead = 4096;

TANDEM_KERNEL __m256i Round(__m256 x, __m256 inverse) {
  const __m256 magic = _mm256_set1_ps(12582912.0f);  // 1.5 · 2²³, as ToInt8
  return _mm256_sub_epi32(_mm256_castps_si256(_mm256_fmadd_ps(x, inverse, magic)),
                          _mm256_castps_si256(magic));
}

// Of one whole group.
TANDEM_KERNEL void QuantizeGroup(const float* x, RowGroup* group) {
  const __m256i size = _mm256_set1_epi32(0x7fffffff);
  __m256 values[4];
  __m256i largest = _mm256_setzero_si256();
  for (int j = 0; j < 4; ++j) {
    values[j] = _mm256_loadu_ps(x + 8 * j);
    // Magnitudes in the order of their bits, in which what is not finite is largest.
    largest = _mm256_max_epi32(largest, _mm256_and_si256(_mm256_castps_si256(values[j]), size));
  }
  float lanes[8];
  _mm256_storeu_ps(lanes, _mm256_castsi256_ps(largest));
  const Int8Scale of = ScaleOf(lanes, 8);
  const __m256 inverse = _mm256_set1_ps(of.inverse);
  __m256i parts[4];
  __m256i total = _mm256_setzero_si256();
  for (int j = 0; j < 4; ++j) {
    parts[j] = of.inverse == 0 ? _mm256_setzero_si256() : Round(values[j], inverse);
    total = _mm256_add_epi32(total, parts[j]);
  }
  const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(parts[0], parts[1]),
                                            _mm256_packs_epi32(parts[2], parts[3]));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(group->integers),
                      _mm256_permutevar8x32_epi32(packed, order));
  int32_t sums[8];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums), total);
  int32_t sum = 0;
  for (int i = 0; i < 8; ++i) sum += sums[i];
  group->scale = of.scale;
  group->scaled_sum = of.scale * static_cast<float>(sum);
  group->start_4 = -8 * sum;
  group->start_8 = -128 * sum;
}

void Quantize(const float* x, int k, RowGroup* groups, int stride) {
  int begin = 0;
  for (; begin + kGroupInputs <= k; begin += kGroupInputs, groups += stride) {
    QuantizeGroup(x + begin, groups);
  }
  if (begin == k) return;
  float last[kGroupInputs] = {};
  for (int i = begin; i < k; ++i) last[i - begin] = x[i];
  QuantizeGroup(last, groups);
}

template <ScaleType kScales>
TANDEM_KERNEL __m256 Scales(const uint8_t* from, int column) {
  if constexpr (kScales == ScaleType::kFloat16) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 2 * column)));
  } else {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(from) + column);
  }
}

TANDEM_KERNEL __m256i Four(const int8_t* x) {
  int32_t four;
  __builtin_memcpy(&four, x, sizeof(four));
  return _mm256_set1_epi32(four);
}

TANDEM_KERNEL __m256i Load(const uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

// A group of rows first to first + R - 1, which begin at `rows`, and N eights of columns from
// `column` on.
template <Integers kIntegers, ScaleType kScales, int R, int N>
TANDEM_KERNEL void Tile(const RowGroup* rows, const uint8_t* at, int first, int column,
                        float (*out)[32]) {
  constexpr GroupLayout kLayout{kIntegers, kScales};
  const uint8_t* weights = at + kLayout.header_bytes() + 4 * column;
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i products[R][N];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) products[r][j] = _mm256_setzero_si256();
  }
  if constexpr (kIntegers == Integers::kInt8) {
    // The instruction multiplies unsigned by signed bytes: |w| by x with the sign of w. Two
    // products fit into 16 bits: 2 · 128 · 127.
    const __m256i offset = _mm256_set1_epi8(-128);
    for (int four = 0; four < 8; ++four) {
      __m256i weight[N];
      __m256i size[N];
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) {
        weight[j] = _mm256_xor_si256(Load(weights + four * 128 + 32 * j), offset);
        size[j] = _mm256_abs_epi8(weight[j]);
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const __m256i value = Four(rows[r].integers + four * 4);
#pragma GCC unroll 4
        for (int j = 0; j < N; ++j) {
          const __m256i pairs = _mm256_maddubs_epi16(size[j], _mm256_sign_epi8(value, weight[j]));
          products[r][j] = _mm256_add_epi32(products[r][j], _mm256_madd_epi16(pairs, ones));
          // As in int8_avx2.cc: or GCC keeps sums in memory.
          asm volatile("" : "+x"(products[r][j]));
        }
      }
    }
  } else {
    // All products of a group fit into 16 bits by two: 8 · 2 · 15 · 127 is below 2¹⁵.
    const __m256i low = _mm256_set1_epi8(0x0f);
    for (int pair = 0; pair < 4; ++pair) {
      __m256i lower[N];
      __m256i upper[N];
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) {
        const __m256i both = Load(weights + pair * 128 + 32 * j);
        lower[j] = _mm256_and_si256(both, low);
        upper[j] = _mm256_and_si256(_mm256_srli_epi16(both, 4), low);
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const __m256i of_lower = Four(rows[r].integers + pair * 8);
        const __m256i of_upper = Four(rows[r].integers + pair * 8 + 4);
#pragma GCC unroll 4
        for (int j = 0; j < N; ++j) {
          const __m256i sum = _mm256_add_epi16(_mm256_maddubs_epi16(lower[j], of_lower),
                                               _mm256_maddubs_epi16(upper[j], of_upper));
          products[r][j] = _mm256_add_epi16(products[r][j], sum);
          asm volatile("" : "+x"(products[r][j]));
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) {
        products[r][j] = _mm256_madd_epi16(products[r][j], ones);
        if constexpr (kIntegers == Integers::kInt4Centered) {
          const __m256i start = _mm256_set1_epi32(rows[r].start_4);
          products[r][j] = _mm256_add_epi32(products[r][j], start);
        }
      }
    }
  }
#pragma GCC unroll 4
  for (int j = 0; j < N; ++j) {
    const int eight = column + 8 * j;
    const __m256 scales = Scales<kScales>(at, eight);
    __m256 minimums = _mm256_setzero_ps();
    if constexpr (kLayout.has_minimum()) {
      minimums = Scales<kScales>(at + kLayout.scale_bytes(), eight);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const RowGroup& of_row = rows[r];
      float* const place = out[first + r] + eight;
      const __m256 scale = _mm256_mul_ps(scales, _mm256_set1_ps(of_row.scale));
      __m256 sum =
          _mm256_fmadd_ps(_mm256_cvtepi32_ps(products[r][j]), scale, _mm256_loadu_ps(place));
      if constexpr (kLayout.has_minimum()) {
        sum = _mm256_fmadd_ps(minimums, _mm256_set1_ps(of_row.scaled_sum), sum);
      }
      _mm256_storeu_ps(place, sum);
    }
  }
}

// Rows first to first + R - 1 of a group.
template <Integers kIntegers, ScaleType kScales, int R>
TANDEM_KERNEL void GroupRows(const RowGroup* rows, const uint8_t* at, int first, float (*out)[32]) {
  constexpr int kWide = R <= 2 ? 4 : 2;  // more eights would not leave registers
  for (int column = 0; column < 32; column += 8 * kWide) {
    Tile<kIntegers, kScales, R, kWide>(rows, at, first, column, out);
  }
}

// A group meets all rows before the next group, in parts whose sums stay in registers.
template <Integers kIntegers, ScaleType kScales, int R>
void RowsOf(const GroupedArgs& args, float (*out)[32]) {
  constexpr int kLower = R <= 5 ? R : (R + 1) / 2;
  constexpr GroupLayout kLayout{kIntegers, kScales};
  const uint8_t* at = args.panel;
  for (int r = 0; r < R; ++r) {
    for (int column = 0; column < 32; column += 8) {
      _mm256_storeu_ps(out[r] + column, _mm256_setzero_ps());
    }
  }
  const RowGroup* rows = args.x;
  for (int group = 0; group < args.groups; ++group, rows += R, at += kLayout.group_bytes()) {
    for (int line = 0; line < kLayout.group_bytes(); line += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(at) + kAhead + line, _MM_HINT_T0);
    }
    GroupRows<kIntegers, kScales, kLower>(rows, at, 0, out);
    if constexpr (kLower < R) {
      GroupRows<kIntegers, kScales, R - kLower>(rows + kLower, at, kLower, out);
    }
  }
}

struct Way {
  template <Integers kIntegers, ScaleType kScales, int R>
  static void Rows(const GroupedArgs& args, float (*out)[32]) {
    RowsOf<kIntegers, kScales, R>(args, out);
  }
};

}  // namespace

const GroupedKernels kAvx2GroupedKernels = {"avx2", Quantize, GroupedDispatch<Way>::Multiply};

}  // namespace tandem::model::cpu
