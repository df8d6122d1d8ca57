// Rows of a source matrix to panels by group (grouped.h).
#pragma once

#include <cstdint>

#include "model/cpu/block_formats.h"
#include "model/cpu/grouped.h"
#include "model/cpu/kernels.h"

namespace tandem::model::cpu {

// What the 32 rows of a panel are held as, each of them of its type alone. `type` (kInt4 or
// kInt8Grouped) says it of rows of floating point.
GroupLayout PanelLayout(const SourceRow* rows, WeightType type);

// Writes a whole panel of layout.panel_bytes(k). False: a value was rounded.
bool PackGroups(const SourceRow* rows, int k, const GroupLayout& layout, uint8_t* panel);

}  // namespace tandem::model::cpu
