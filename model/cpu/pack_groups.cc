#include "model/cpu/pack_groups.h"

#include <algorithm>

namespace tandem::model::cpu {

GroupLayout PanelLayout(const SourceRow* /*rows*/, WeightType type) {
  return {type == WeightType::kInt4 ? Integers::kInt4 : Integers::kInt8, ScaleType::kFloat16};
}

bool PackGroups(const SourceRow* rows, int k, const GroupLayout& layout, uint8_t* panel) {
  bool exact = true;
  float weights[kGroupInputs];
  for (int group = 0; group < InputGroups(k); ++group) {
    const int begin = group * kGroupInputs;
    const int count = std::min(kGroupInputs, k - begin);
    for (int column = 0; column < kPanelColumns; ++column) {
      const SourceRow& row = rows[column];
      if (row.data == nullptr) {
        StoreGroup(layout, {}, group, column, panel);
        continue;
      }
      for (int i = 0; i < count; ++i) weights[i] = ReadValue(row.data, row.type, begin + i);
      const WeightGroup rounded = layout.integers == Integers::kInt8 ? RoundToInt8(weights, count)
                                                                     : RoundToInt4(weights, count);
      StoreGroup(layout, rounded, group, column, panel);
      for (int i = 0; i < count; ++i) exact = exact && WeightOf(layout, rounded, i) == weights[i];
    }
  }
  return exact;
}

}  // namespace tandem::model::cpu
