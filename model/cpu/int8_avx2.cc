// Compiled with AVX2 and FMA; called only where the processor has both. Plain loops and intrinsics
// only, as in kernels_template.h.
#include <immintrin.h>

#include "model/cpu/int8.h"

namespace tandem::model::cpu {
namespace {

#define TANDEM_KERNEL inline __attribute__((always_inline))

TANDEM_KERNEL int32_t SumOf(__m256i lanes) {
  int32_t values[8];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(values), lanes);
  int32_t sum = 0;
  for (int i = 0; i < 8; ++i) sum += values[i];
  return sum;
}

TANDEM_KERNEL __m256i Round(__m256 x, __m256 inverse) {
  const __m256 magic = _mm256_set1_ps(12582912.0f);
  return _mm256_sub_epi32(_mm256_castps_si256(_mm256_fmadd_ps(x, inverse, magic)),
                          _mm256_castps_si256(magic));
}

// As Quantize in int8.cc. ScaleOf is one pass over the row in any order: the largest of some
// numbers.
void Quantize(const float* x, int k, int8_t* out, float* scale, int32_t* sum) {
  const int whole = k / 32 * 32;
  const __m256 sign = _mm256_set1_ps(-0.0f);
  __m256 largest = _mm256_setzero_ps();
  __m256 odd = _mm256_setzero_ps();  // NaN where a value is not finite
  for (int i = 0; i < whole; i += 8) {
    const __m256 value = _mm256_loadu_ps(x + i);
    largest = _mm256_max_ps(_mm256_andnot_ps(sign, value), largest);
    odd = _mm256_fmadd_ps(value, _mm256_setzero_ps(), odd);
  }
  // The lanes and the rest of the row, as one short row.
  float few[8 + 32 + 8];
  _mm256_storeu_ps(few, largest);
  for (int i = whole; i < k; ++i) few[8 + i - whole] = x[i];
  _mm256_storeu_ps(few + 8 + (k - whole), odd);
  const Int8Scale of = ScaleOf(few, 8 + (k - whole) + 8);
  *scale = of.scale;
  const __m256 inverse = _mm256_set1_ps(of.inverse);
  const bool zeros = of.inverse == 0;
  __m256i total = _mm256_setzero_si256();
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  for (int i = 0; i < whole; i += 32) {
    __m256i parts[4];
    for (int j = 0; j < 4; ++j) {
      parts[j] = zeros ? _mm256_setzero_si256() : Round(_mm256_loadu_ps(x + i + 8 * j), inverse);
      total = _mm256_add_epi32(total, parts[j]);
    }
    const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(parts[0], parts[1]),
                                              _mm256_packs_epi32(parts[2], parts[3]));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i),
                        _mm256_permutevar8x32_epi32(packed, order));
  }
  *sum = SumOf(total);
  for (int i = whole; i < k; ++i) {
    out[i] = ToInt8(x[i], of.inverse);
    *sum += out[i];
  }
  for (int i = k; i < Int8Groups(k) * kInt8Group; ++i) out[i] = 0;
}

// Groups that all tiles of a panel meet before the next ones. They stay in the first cache, where
// the next ones are on their way meanwhile: several rows fill the processor's window with
// arithmetic, so it looks less far ahead by itself than memory takes.
constexpr int kGroupsAtOnce = 128;
constexpr int kGroupBytes = 32 * kInt8Group;
// The same for a tile that is a whole panel wide.
constexpr int kAhead = 8192;

// R rows by N eights of columns, over groups of inputs; the sums start from `from`, rows
// `from_step` apart.
// The instruction multiplies unsigned by signed bytes: |w| by x, or by ~x = -x - 1 where w is
// negative. The -1s sum up to what the panel's header holds, from which the sums start: so a change
// of sign costs one operation that every unit of the processor has. Two products fit into 16 bits,
// so nothing saturates: beside x, in [-127, 127], |w| is at most 127; beside ~x, in [-128, 126], at
// most 128. All rows at once: each weight is read once.
template <int R, int N>
TANDEM_KERNEL void Tile(const int8_t* x, size_t stride, int groups, const int8_t* w,
                        const int32_t* from, size_t from_step, const int8_t* ahead,
                        size_t ahead_step, int32_t (*out)[32], int column) {
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sums[R][N];
// Unrolled here, too, or GCC keeps the sums of more than five rows in memory.
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) {
      sums[r][j] = _mm256_loadu_si256(
          reinterpret_cast<const __m256i*>(from + r * from_step + column + 8 * j));
    }
  }
  for (int group = 0; group < groups; ++group, w += kGroupBytes, x += kInt8Group) {
    _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T0);
    if constexpr (N == 4) _mm_prefetch(reinterpret_cast<const char*>(ahead) + 64, _MM_HINT_T0);
    ahead += ahead_step;
    __m256i negative[N];
    __m256i size[N];
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) {
      const __m256i weight = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w) + j);
      negative[j] = _mm256_cmpgt_epi8(_mm256_setzero_si256(), weight);
      size[j] = _mm256_abs_epi8(weight);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      int32_t four;
      __builtin_memcpy(&four, x + r * stride, sizeof(four));
      const __m256i value = _mm256_set1_epi32(four);
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) {
        const __m256i pairs = _mm256_maddubs_epi16(size[j], _mm256_xor_si256(value, negative[j]));
        sums[r][j] = _mm256_add_epi32(sums[r][j], _mm256_madd_epi16(pairs, ones));
        // Or GCC moves the loads of all rows before the products of the first, and keeps sums in
        // memory for it.
        asm volatile("" : "+x"(sums[r][j]));
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out[r] + column + 8 * j), sums[r][j]);
    }
  }
}

template <int R>
void Rows(const int8_t* x, size_t stride, int groups, const int8_t* panel, int32_t (*out)[32]) {
  const auto* start = reinterpret_cast<const int32_t*>(panel);
  const int8_t* const weights = panel + kInt8PanelHeader;
  if constexpr (R <= 2) {
    Tile<R, 4>(x, stride, groups, weights, start, 0, weights + kAhead, kGroupBytes, out, 0);
    return;
  }
  constexpr int kWide = 2;  // more eights would not leave registers
  constexpr int kTiles = 4 / kWide;
  for (int begin = 0; begin < groups; begin += kGroupsAtOnce) {
    const int count = groups - begin < kGroupsAtOnce ? groups - begin : kGroupsAtOnce;
    const int8_t* const block = weights + static_cast<size_t>(begin) * kGroupBytes;
    for (int tile = 0; tile < kTiles; ++tile) {
      constexpr int kBlockBytes = kGroupsAtOnce * kGroupBytes;
      Tile<R, kWide>(x + begin * kInt8Group, stride, count, block + tile * kWide * 32,
                     begin == 0 ? start : out[0], begin == 0 ? 0 : 32,
                     block + kBlockBytes + kBlockBytes / kTiles * tile, kGroupBytes / kTiles, out,
                     tile * kWide * 8);
    }
  }
}

void Multiply(const int8_t* x, size_t stride, const int32_t* /*sums*/, int rows, int groups,
              const int8_t* panel, int32_t (*out)[32]) {
  switch (rows) {
    case 1:
      return Rows<1>(x, stride, groups, panel, out);
    case 2:
      return Rows<2>(x, stride, groups, panel, out);
    case 3:
      return Rows<3>(x, stride, groups, panel, out);
    case 4:
      return Rows<4>(x, stride, groups, panel, out);
    case 5:
      return Rows<5>(x, stride, groups, panel, out);
    case 6:
      return Rows<6>(x, stride, groups, panel, out);
    case 7:
      return Rows<7>(x, stride, groups, panel, out);
    case 8:
      return Rows<8>(x, stride, groups, panel, out);
  }
}

}  // namespace

const Int8Kernels kAvx2Int8Kernels = {"avx2", Quantize, Multiply};

}  // namespace tandem::model::cpu
