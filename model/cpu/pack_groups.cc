#include "model/cpu/pack_groups.h"

#include <algorithm>
#include <optional>

#include "model/cpu/block_groups.h"

namespace tandem::model::cpu {
namespace {

// What holds the weights of both: exactly, but for four bits beside eight, which are rounded to
// eight.
GroupLayout Common(const GroupLayout& a, const GroupLayout& b) {
  if (a == b) return a;
  const ScaleType scales = std::max(a.scales, b.scales);
  if (a.integers == b.integers) return {a.integers, scales};
  const bool bytes = a.integers == Integers::kInt8 || b.integers == Integers::kInt8;
  if (bytes) return {Integers::kInt8, scales};
  // The minimum that stands for an offset is a scale times 8, which fp16 may not have.
  return {Integers::kInt4, ScaleType::kFloat32};
}

// A group of a row as `layout` has it. *exact: nothing was rounded, nor before.
WeightGroup GroupFor(const GroupLayout& layout, const SourceRow& row, int group, int count,
                     bool* exact) {
  if (KeepsIntegers(row.type)) {
    const GroupLayout own = LayoutOf(row.type);
    WeightGroup read = ReadGroup(row.type, row.data, group);
    if (own.integers == layout.integers) return read;
    if (own.integers == Integers::kInt4Centered && layout.integers == Integers::kInt4) {
      read.minimum = -8 * read.scale;
      return read;
    }
  }
  float weights[kGroupInputs];
  for (int i = 0; i < count; ++i) {
    weights[i] = ReadValue(row.data, row.type, int64_t{group} * kGroupInputs + i);
  }
  const WeightGroup rounded = layout.integers == Integers::kInt8 ? RoundToInt8(weights, count)
                                                                 : RoundToInt4(weights, count);
  for (int i = 0; i < count; ++i) {
    *exact = *exact && WeightOf(layout, rounded, i) == weights[i];
  }
  return rounded;
}

}  // namespace

GroupLayout RowLayout(SourceType source, WeightType type) {
  const bool four = type == WeightType::kInt4;
  if (IsBlocks(source) && !(four && LayoutOf(source).integers == Integers::kInt8)) {
    return LayoutOf(source);
  }
  return {four ? Integers::kInt4 : Integers::kInt8, ScaleType::kFloat16};
}

bool KeepsValues(SourceType source, WeightType type) {
  return KeepsIntegers(source) && RowLayout(source, type) == LayoutOf(source);
}

GroupLayout PanelLayout(const SourceRow* rows, WeightType type) {
  std::optional<GroupLayout> layout;
  for (int column = 0; column < kPanelColumns; ++column) {
    if (rows[column].data == nullptr) continue;
    const GroupLayout of_row = RowLayout(rows[column].type, type);
    layout = layout.has_value() ? Common(*layout, of_row) : of_row;
  }
  return layout.value_or(GroupLayout{});
}

bool PackGroups(const SourceRow* rows, int k, const GroupLayout& layout, uint8_t* panel) {
  bool exact = true;
  for (int group = 0; group < InputGroups(k); ++group) {
    const int count = std::min(kGroupInputs, k - group * kGroupInputs);
    for (int column = 0; column < kPanelColumns; ++column) {
      const SourceRow& row = rows[column];
      const WeightGroup weights =
          row.data == nullptr ? WeightGroup{} : GroupFor(layout, row, group, count, &exact);
      StoreGroup(layout, weights, group, column, panel);
    }
  }
  return exact;
}

}  // namespace tandem::model::cpu
