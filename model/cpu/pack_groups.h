// Rows of a source matrix to panels by group (grouped.h).
#pragma once

#include <cstdint>

#include "model/cpu/block_formats.h"
#include "model/cpu/grouped.h"
#include "model/cpu/kernels.h"

namespace tandem::model::cpu {

// How a row of `source` is held in a matrix of `type`, kInt8Grouped or kInt4. Rows of blocks are as
// they are (block_groups.h) where they have no more bits than `type`; all others are rounded to it.
GroupLayout RowLayout(SourceType source, WeightType type);

// Whether such a row keeps its values.
bool KeepsValues(SourceType source, WeightType type);

// How a panel of 32 rows is held: as they are, or where they differ as what holds all of them.
GroupLayout PanelLayout(const SourceRow* rows, WeightType type);

// Writes a whole panel of layout.panel_bytes(k). False: a value was rounded.
bool PackGroups(const SourceRow* rows, int k, const GroupLayout& layout, uint8_t* panel);

}  // namespace tandem::model::cpu
