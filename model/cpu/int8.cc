// The definition of the arithmetic, and the kernels for any machine.
#include "model/cpu/int8.h"

#include <cmath>
#include <limits>

namespace tandem::model::cpu {
namespace {

constexpr float kLargest = 127.0f;

// Bytes between rows: whole cache lines and one more, so that rows of a power of two do not all
// fall on the same cache sets.
size_t RowBytes(int k) { return (static_cast<size_t>(k) + 63) / 64 * 64 + 64; }

void Quantize(const float* x, int k, int8_t* out, float* scale, int32_t* sum) {
  const Int8Scale of = ScaleOf(x, k);
  *scale = of.scale;
  *sum = 0;
  for (int i = 0; i < k; ++i) {
    out[i] = ToInt8(x[i], of.inverse);
    *sum += out[i];
  }
  for (int i = k; i < Int8Groups(k) * kInt8Group; ++i) out[i] = 0;
}

void Multiply(const int8_t* x, size_t stride, const int32_t* /*sums*/, int rows, int groups,
              const int8_t* panel, int32_t (*out)[32]) {
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < 32; ++column) out[row][column] = 0;
  }
  for (int group = 0; group < groups; ++group) {
    for (int row = 0; row < rows; ++row) {
      const int8_t* four = x + row * stride + group * kInt8Group;
      for (int column = 0; column < 32; ++column) {
        const int8_t* weights =
            panel + kInt8PanelHeader + (static_cast<size_t>(group) * 32 + column) * kInt8Group;
        int32_t sum = 0;
        for (int i = 0; i < kInt8Group; ++i) sum += int32_t{four[i]} * int32_t{weights[i]};
        out[row][column] += sum;
      }
    }
  }
}

}  // namespace

Int8Scale ScaleOf(const float* values, int count) {
  float largest = 0;
  bool finite = true;
  for (int i = 0; i < count; ++i) {
    const float size = std::fabs(values[i]);
    finite = finite && size <= std::numeric_limits<float>::max();
    if (size > largest) largest = size;
  }
  if (!finite) return {std::numeric_limits<float>::quiet_NaN(), 0};
  // Below this 127 / largest is infinite: such a row counts as zeros.
  if (largest < std::numeric_limits<float>::min()) return {};
  return {largest / kLargest, kLargest / largest};
}

int8_t ToInt8(float value, float inverse) {
  if (inverse == 0) return 0;
  // 1.5 · 2²³: adding it rounds to an integer, kept in the low bits.
  const float rounded = std::fma(value, inverse, 12582912.0f) - 12582912.0f;
  return static_cast<int8_t>(rounded);
}

QuantizedRows::QuantizedRows(int rows, int max_k)
    : stride_(RowBytes(max_k)),
      data_(rows * stride_),
      scales_(FloatBuffer(rows)),
      sums_(rows * sizeof(int32_t)) {}

const Int8Kernels kPortableInt8Kernels = {"portable", Quantize, Multiply};

}  // namespace tandem::model::cpu
