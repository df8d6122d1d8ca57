// Products by groups of inputs: weights of 4 or 8 bits with a scale for each 32 inputs of an output
// column, activations as int8 with a scale for each 32 inputs of a row.
//
// This is what GGUF calls Q4_0, Q4_1, Q4_K and Q8_0, and what GPTQ and AWQ write at groups of 32
// (of more: the same scale several times). A row of activations is rounded as there (Q8_1), by its
// own largest value of each group.
//
// The sum of a row and a column goes through the groups in order, in a lane of its own:
//   s = the sum of (weight's integer - offset) · activation's integer over the group: exact
//   sum = fma(float(s), scale of the weights · scale of the activations, sum)
//   and where weights have a minimum:
//   sum = fma(minimum, scale of the activations · sum of the activations' integers, sum)
// Each step is one IEEE operation. So neither the rows beside it, nor the instruction set, nor what
// scales are stored as shows in a result.
// Thread safety: pure functions of their arguments; GroupedRows like a std::vector.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/cpu/buffer.h"

namespace tandem::model::cpu {

// Inputs that share a scale. The last group of a column is filled up with inputs that are 0.
inline constexpr int kGroupInputs = 32;

inline constexpr int InputGroups(int k) { return (k + kGroupInputs - 1) / kGroupInputs; }

// What a weight of a panel is: scale · (integer - offset) + minimum.
enum class Integers : uint8_t {
  kInt4,          // 0 to 15, offset 0, with a minimum
  kInt4Centered,  // 0 to 15, offset 8, no minimum
  kInt8,          // 0 to 255, offset 128, no minimum
};

// What its scales and minimums are stored as.
enum class ScaleType : uint8_t { kFloat16, kFloat32 };

// How a panel of 32 columns lies in memory. A group: the scales [32], the minimums [32] where there
// are such, then the integers, by fours of inputs that one instruction multiplies and adds:
//   kInt8: uint8 [8 fours][32 columns][4]
//   others: uint8 [4 pairs of fours][32 columns][4], the first four of a pair in the lower halves
struct GroupLayout {
  Integers integers = Integers::kInt4;
  ScaleType scales = ScaleType::kFloat16;

  constexpr bool has_minimum() const { return integers == Integers::kInt4; }
  constexpr int offset() const {
    if (integers == Integers::kInt8) return 128;
    return integers == Integers::kInt4Centered ? 8 : 0;
  }
  constexpr int scale_bytes() const { return 32 * (scales == ScaleType::kFloat16 ? 2 : 4); }
  constexpr int header_bytes() const { return scale_bytes() * (has_minimum() ? 2 : 1); }
  constexpr int group_bytes() const {
    return header_bytes() + 32 * kGroupInputs / (integers == Integers::kInt8 ? 1 : 2);
  }
  constexpr size_t panel_bytes(int k) const {
    return static_cast<size_t>(InputGroups(k)) * group_bytes();
  }
  bool operator==(const GroupLayout&) const = default;
};

// One column's weights of a group.
struct WeightGroup {
  uint8_t integers[kGroupInputs] = {};
  float scale = 0;
  float minimum = 0;
};

// `count` weights, 1 to kGroupInputs, rounded: to kInt4 or kInt8, with scales that are fp16. Of
// kInt4 scale and minimum are those of some around the range's that give the least squared error.
// What is not finite, or too large for fp16, must have been refused.
WeightGroup RoundToInt4(const float* weights, int count);
WeightGroup RoundToInt8(const float* weights, int count);

// The weight that input `index` of a group stands for.
float WeightOf(const GroupLayout& layout, const WeightGroup& group, int index);

// A group's column in a panel. Scales must be values of layout.scales.
void StoreGroup(const GroupLayout& layout, const WeightGroup& weights, int group, int column,
                uint8_t* panel);
WeightGroup LoadGroup(const GroupLayout& layout, const uint8_t* panel, int group, int column);

// A row's activations of a group.
struct RowGroup {
  int8_t integers[kGroupInputs] = {};
  float scale = 0;       // NaN where a value is not finite
  float scaled_sum = 0;  // scale · the integers' sum
  int32_t start_4 = 0;   // -8 · the integers' sum
  int32_t start_8 = 0;   // -128 · the integers' sum
};

inline constexpr int kMaxGroupedRows = 8;

// Rows of a pass that are multiplied together: all, or parts of about equal size.
struct RowBlock {
  int begin = 0;
  int count = 0;  // 1 to kMaxGroupedRows
};
inline constexpr int RowBlocks(int rows) { return (rows + kMaxGroupedRows - 1) / kMaxGroupedRows; }
inline constexpr RowBlock RowBlockAt(int rows, int block) {
  const int64_t blocks = RowBlocks(rows);
  const int begin = static_cast<int>(int64_t{rows} * block / blocks);
  return {begin, static_cast<int>(int64_t{rows} * (block + 1) / blocks) - begin};
}

struct GroupedArgs {
  GroupLayout layout;
  const uint8_t* panel = nullptr;
  const RowGroup* x = nullptr;  // [groups][rows]
  int rows = 0;                 // 1 to kMaxGroupedRows
  int groups = 0;
};

// One instruction set's way. All give the same bits.
struct GroupedKernels {
  const char* name;

  // A row of k floats to whole groups, zeros behind the last input; `stride` groups from one to the
  // next.
  void (*quantize)(const float* x, int k, RowGroup* groups, int stride);

  // out[r][c]: the sum of row r and column c of the panel.
  void (*multiply)(const GroupedArgs& args, float (*out)[32]);
};

// The one with row `row`.
inline constexpr RowBlock RowBlockOf(int rows, int row) {
  int block = static_cast<int>(int64_t{row} * RowBlocks(rows) / rows);
  // Begins are rounded down, so the row may be the next one's.
  while (block + 1 < RowBlocks(rows) && RowBlockAt(rows, block + 1).begin <= row) ++block;
  return RowBlockAt(rows, block);
}

// Rows of activations as int8 by group. Those of a block lie together, group by group, so that a
// product reads one stream of them.
class GroupedRows {
 public:
  GroupedRows() = default;
  // Room for `rows` rows of up to `max_k` inputs.
  GroupedRows(int rows, int max_k);

  // Row `row` of the `rows` of a pass: k floats.
  void Quantize(const GroupedKernels& kernels, const float* x, int k, int row, int rows) {
    const RowBlock block = RowBlockOf(rows, row);
    kernels.quantize(x, k, Begin(InputGroups(k), block) + row - block.begin, block.count);
  }

  // A block of a pass with `groups` groups, [groups][count].
  const RowGroup* block(int groups, const RowBlock& block) const {
    return static_cast<const RowGroup*>(data_.data()) + static_cast<size_t>(block.begin) * groups;
  }
  size_t bytes() const { return data_.bytes(); }

 private:
  RowGroup* Begin(int groups, const RowBlock& block) {
    return static_cast<RowGroup*>(data_.data()) + static_cast<size_t>(block.begin) * groups;
  }

  Buffer data_;
};

extern const GroupedKernels kPortableGroupedKernels;
#if defined(__x86_64__)
extern const GroupedKernels kAvx2GroupedKernels;
extern const GroupedKernels kAvx512VnniGroupedKernels;
#endif

}  // namespace tandem::model::cpu
