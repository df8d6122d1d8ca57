// Products in whole numbers: int8 weights by output column, int8 activations by row.
//
// A weight is its column's scale times an integer in [-127, 127] ([-128, 127] from a checkpoint),
// an activation its row's scale times an integer in [-127, 127]: symmetric, and dynamic for
// activations (LLM.int8(), Dettmers et al. 2022, section 2.1, vector-wise quantization; "w8a8"
// elsewhere). A sum of products of integers is exact, so neither the rows beside it, nor the
// instruction set, nor the order shows in a result. Each step around it is one IEEE operation in a
// fixed order. Thread safety: pure functions of their arguments; QuantizedRows like a std::vector.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/cpu/buffer.h"

namespace tandem::model::cpu {

// Inputs of one int8 product at most: the sum of so many products fits into 32 bits, also where an
// instruction takes one factor as unsigned (255 · 128 · 65,536 < 2³¹).
inline constexpr int kMaxInt8Inputs = 65536;

// Bytes of one column that lie together in a panel: what one instruction multiplies and adds.
inline constexpr int kInt8Group = 4;

inline constexpr int Int8Groups(int k) { return (k + kInt8Group - 1) / kInt8Group; }

// A panel of 32 columns: first int32 [32], for each column the sum of the magnitudes of its
// negative weights; then the weights, int8 [groups][32][4].
inline constexpr int kInt8PanelHeader = 32 * sizeof(int32_t);  // bytes
inline constexpr size_t Int8PanelBytes(int k) {
  return kInt8PanelHeader + static_cast<size_t>(Int8Groups(k)) * 32 * kInt8Group;
}

// The largest magnitude of a row or column, divided by the largest integer. 0 for a row of zeros,
// NaN where a value is not finite.
struct Int8Scale {
  float scale = 0;
  float inverse = 0;  // 127 / the largest magnitude; 0 for a row of zeros
};

Int8Scale ScaleOf(const float* values, int count);

// value · inverse, rounded once to the nearest integer, ties to even.
int8_t ToInt8(float value, float inverse);

// Rows of activations as int8, padded with zeros to whole groups.
class QuantizedRows {
 public:
  QuantizedRows() = default;
  // Room for `rows` rows of up to `max_k` inputs.
  QuantizedRows(int rows, int max_k);

  int8_t* row(int i) { return static_cast<int8_t*>(data_.data()) + i * stride_; }
  const int8_t* row(int i) const { return static_cast<const int8_t*>(data_.data()) + i * stride_; }
  size_t stride() const { return stride_; }  // bytes
  float* scales() { return scales_.floats(); }
  const float* scales() const { return scales_.floats(); }
  // Of a row's integers.
  int32_t* sums() { return static_cast<int32_t*>(sums_.data()); }
  const int32_t* sums() const { return static_cast<const int32_t*>(sums_.data()); }

 private:
  size_t stride_ = 0;
  Buffer data_;
  Buffer scales_;
  Buffer sums_;
};

// One instruction set's way. All give the same integers.
struct Int8Kernels {
  const char* name;

  // A row of k floats to integers, zeros up to whole groups; its scale and the integers' sum.
  void (*quantize)(const float* x, int k, int8_t* out, float* scale, int32_t* sum);

  // out[r][c] = the sum over all inputs of row r and column c of a panel. rows: 1 to kMaxInt8Rows.
  void (*multiply)(const int8_t* x, size_t stride, const int32_t* sums, int rows, int groups,
                   const int8_t* panel, int32_t (*out)[32]);
};

inline constexpr int kMaxInt8Rows = 8;

extern const Int8Kernels kPortableInt8Kernels;
#if defined(__x86_64__)
extern const Int8Kernels kAvx2Int8Kernels;
extern const Int8Kernels kAvx512VnniInt8Kernels;
#endif

}  // namespace tandem::model::cpu
