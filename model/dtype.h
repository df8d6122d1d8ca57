// How a model's weights are held in memory. Arithmetic is fp32 whatever they are held as, but for
// int8 and int4.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem::model {

enum class Dtype {
  // Each matrix as its file has it: fp32, bf16, fp16, int8 or blocks. The values are the file's,
  // but for blocks of Q5_1, Q5_K and Q6_K, which are rounded to int8 by group.
  kAuto,
  // Everything widened to fp32: the same values and the same results as kAuto, in twice the memory
  // where the file has 16 bits.
  kFloat32,
  // Matrices and embeddings rounded to bf16 (to the nearest, ties to even), half of fp32's memory;
  // other values than the file's unless those were bf16 already. Norms and biases stay as the file
  // has them: they are a few numbers per layer, and each of them scales or shifts a whole column.
  kBfloat16,
  // The same as fp16. What is beyond its largest value, 65,504, becomes that.
  kFloat16,
  // Matrices as int8 with a scale for each 32 inputs of an output column (as GGUF's Q8_0), 8.5 bits
  // a weight. Their products are in whole numbers: activations are rounded to int8 by as many
  // inputs of a row (cpu/grouped.h). An embedding that is not tied to the output stays as the file
  // has it: a pass reads few of its rows.
  kInt8,
  // The same as 4-bit integers, with a minimum, too (Q4_1), 5 bits per weight. The output, and an
  // embedding that is tied to it, are kInt8: there 4 bits lose most.
  kInt4,
  // What LibTorch computes for int8: a scale for each output column, and activations by row
  // (cpu/int8.h). No flag has it.
  kInt8ByRow,
};

// What the output is held as beside layers of `dtype`.
inline Dtype OutputDtype(Dtype dtype) { return dtype == Dtype::kInt4 ? Dtype::kInt8 : dtype; }

// Whether matrices are rounded to integers. An untied embedding stays as the file has it then.
inline bool IsInteger(Dtype dtype) {
  return dtype == Dtype::kInt8 || dtype == Dtype::kInt4 || dtype == Dtype::kInt8ByRow;
}

// "auto", "fp32", "bf16", "fp16", "int8", "int4".
const char* DtypeName(Dtype dtype);

// All names that ParseDtype takes.
std::vector<std::string> DtypeNames();

// What keys and values may be held as: those of ParseDtype's names, and what a flag says of them.
std::vector<std::string> CacheDtypeNames();
const char* CacheDtypeHelp();

// Takes "float32", "bfloat16", "float16" and "half" too. INVALID_ARGUMENT naming them.
absl::StatusOr<Dtype> ParseDtype(absl::string_view name);

}  // namespace tandem::model
