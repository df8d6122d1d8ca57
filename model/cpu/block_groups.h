// The integers of ggml's blocks (block_formats.h) as panels by group hold them (grouped.h).
#pragma once

#include "model/cpu/block_formats.h"
#include "model/cpu/grouped.h"

namespace tandem::model::cpu {

// How a panel holds rows of such blocks: with their own integers and scales, or, where
// KeepsIntegers says no, as int8 by value. `type` is one of blocks.
GroupLayout LayoutOf(SourceType type);

// Q4_0, Q4_1, Q5_0, Q8_0, Q4_K, Q4_0F and Q4_1F. The others have scales of fewer than 32 weights
// (Q6_K), or more than four bits and a minimum (Q5_1, Q5_K).
bool KeepsIntegers(SourceType type);

// Weights 32 · group to 32 · group + 31 of a row whose integers are kept, by its layout.
WeightGroup ReadGroup(SourceType type, const void* row, int group);

}  // namespace tandem::model::cpu
