// The types that a checkpoint may hold weights in, and ggml's blocks among them: so many values of
// a row together, as small integers with a scale (and a minimum) for the block or for parts of it.
//
//   type        values  a value is
//   Q4_0        32      d (q - 8)           q: 4 bits
//   Q4_1        32      d q + m
//   Q5_0        32      d (q - 16)          q: 5 bits
//   Q5_1        32      d q + m
//   Q8_0        32      d q                 q: 8 bits, signed
//   Q4_K, Q5_K  256     d s q - e t         s, t: 6 bits, for each 32 of them; q: 4 and 5 bits
//   Q6_K        256     d s (q - 32)        s: 8 bits, signed, for each 16 of them; q: 6 bits
//   Q4_0F       32      d (q - 8)           as Q4_0 and Q4_1 with fp32 d and m, never in files:
//   Q4_1F       32      d q + m             packed checkpoints become these (files/packed_tensor.h)
//
// d, e and m are fp16 elsewhere. The layout is ggml's (github.com/ggml-org/ggml, src/ggml-common.h,
// ggml-quants.c, dequantize_row_…). Each operation is one of fp32, in the order written.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>

namespace tandem::model::cpu {

enum class SourceType {
  kFloat32,
  kBfloat16,
  kFloat16,
  kInt8,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kQ4_0F,
  kQ4_1F,
};

inline constexpr bool IsBlocks(SourceType type) { return type >= SourceType::kQ4_0; }

// Rows of a source matrix [n, k], each contiguous; no alignment needed.
struct SourceRow {
  const void* data = nullptr;  // null: a row of zeros
  SourceType type = SourceType::kFloat32;
  float scale = 1.0f;  // of int8: a weight is its integer times this
};

struct BlockShape {
  int values = 1;
  int bytes = 0;
};
BlockShape BlockShapeOf(SourceType type);

// One value of a source row, as fp32 (exact for types that are not blocks); of int8 the integer
// itself.
float ReadValue(const void* row, SourceType type, int64_t index);

// The first `count` values of a row.
void DequantizeRow(SourceType type, const void* row, int64_t count, float* out);

// Whether the scales and minimums of the first `count` values are finite numbers. `type` is one of
// blocks; `count` is of whole blocks. Of those with fp32 nothing is said: what they are made of was
// looked at.
bool BlocksAreFinite(SourceType type, const void* row, int64_t count);

}  // namespace tandem::model::cpu
