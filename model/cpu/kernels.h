// The arithmetic of a pass, one table of functions for each instruction set.
//
// Every table gives the same bits. What makes that so, and what a change must keep:
//  - A sum over an inner dimension runs in index order, one fused multiply-add a term, in a lane
//    of its own. So neither the rows beside it, nor the width of a vector, nor the partition among
//    threads shows in a result.
//  - Sums across lanes (norms, softmax) use 16 virtual lanes (index modulo 16) and one fixed tree.
//  - exp is our own polynomial; division and square root are IEEE's.
// Pointers are to float32 unless they say otherwise; no alignment is required (64 bytes are
// fastest). Thread safety: pure functions of their arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem::model::cpu {

// A matrix is cut into panels of 32 output columns; inside a panel all columns of one k lie
// together.
inline constexpr int kPanelColumns = 32;
inline constexpr int kLanes = 16;

inline constexpr int RoundUpToPanel(int n) {
  return (n + kPanelColumns - 1) / kPanelColumns * kPanelColumns;
}

enum class WeightType {
  kFloat32,   // a panel: float [k][32]
  kBfloat16,  // a panel: uint32 [k][16]; word j: column j below, column j + 16 above
  kFloat16,   // a panel: uint16 [k][32]
  kInt8,      // see int8.h
  // See grouped.h. Rows of floating point are rounded to so many bits; rows of blocks keep their
  // own.
  kInt4,
  kInt8Grouped,
};

inline constexpr bool IsGrouped(WeightType type) {
  return type == WeightType::kInt4 || type == WeightType::kInt8Grouped;
}

// Where a column's value lies among the 32 of one k of a panel in bf16. The lower half of a word is
// first in memory.
inline constexpr int Bfloat16Half(int column) {
  return column < kLanes ? 2 * column : 2 * (column - kLanes) + 1;
}

// 32-bit words between two k of a panel of floating point.
inline constexpr int WordsPerK(WeightType type) { return type == WeightType::kFloat32 ? 32 : 16; }

enum class Epilogue {
  kStore,       // out = x·W (+ bias)
  kAdd,         // out = out + (x·W (+ bias))
  kAccumulate,  // the sum starts from out instead of 0; no bias
  kSwiGlu,      // columns 0-15 of a panel are gates, 16-31 are ups: out[16] = silu(gate)·up
};

struct MultiplyArgs {
  const float* x = nullptr;  // [rows, k]
  size_t x_stride = 0;       // floats between rows
  int rows = 0;
  int k = 0;
  const void* panels = nullptr;  // the first panel
  size_t panel_words = 0;        // 32-bit words between panels
  int panel_count = 0;
  WeightType type = WeightType::kFloat32;
  Epilogue epilogue = Epilogue::kStore;
  const float* bias = nullptr;  // [panel_count * 32] in the panels' order, or null
  float* out = nullptr;         // [rows, out_columns], from the first panel's first column
  size_t out_stride = 0;
  int out_columns = 0;  // columns past these are not written
};

struct GroupedKernels;
struct Int8Kernels;

struct Kernels {
  const char* name;

  // Of weights in floating point.
  void (*multiply)(const MultiplyArgs& args);

  // The end of a product in whole numbers: `sums` are those of one row and the 32 columns of a
  // panel, which `args` counts from its first; x·W is each sum times the row's scale, times the
  // column's in `scales` [32]. No kAccumulate; x and panels are not read.
  void (*finish)(const MultiplyArgs& args, int row, int panel, const int32_t* sums, float scale,
                 const float* scales);

  // The same where x·W is `sums` [32] as they are.
  void (*store)(const MultiplyArgs& args, int row, int panel, const float* sums);

  // Products in whole numbers: of whole rows and columns, and by groups of inputs.
  const Int8Kernels* int8;
  const GroupedKernels* grouped;

  // out = weight · x / sqrt(mean(x²) + epsilon). `padded`: n rounded up to 16; x and weight are 0
  // from n on.
  void (*rms_norm)(const float* x, const float* weight, int n, int padded, float epsilon,
                   float* out);

  // scores[i] = exp(scores[i] - max) for i < n, 0 up to the next multiple of 32; gives the sum.
  float (*softmax)(float* scores, int n);

  // out[i] = exp(x[i]) for a multiple of 16 values; x is clamped to [-87, 88].
  void (*exp)(const float* x, int n, float* out);
};

// The fastest of this machine.
const Kernels& BestKernels();

// All that this machine can run, the fastest first; the portable one is always among them.
const std::vector<const Kernels*>& SupportedKernels();

extern const Kernels kPortableKernels;
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
#endif

}  // namespace tandem::model::cpu
