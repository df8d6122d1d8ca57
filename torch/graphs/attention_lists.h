// What the kernels of attention read of a pass (torch/kernels/attention.h): its rows, and lists of
// pages, of trees' cells, and of partials.
//
// Rows are filled up to whole tiles. Those that fill up see nothing, and write to the scratch page.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "torch/graphs/pass_inputs.h"
#include "torch/kernels/cache_types.h"
#include "torch/library/interface.h"

namespace tandem::torch {

struct AttentionLists {
  std::vector<kernels::CacheRow> rows;  // whole tiles
  // All lists: rows say where in it their own begin, and each partial's row is at the partial's
  // number.
  std::vector<uint32_t> words;
};

// Replaces what is in `to`.
void MakeAttentionLists(const PassRows& pass, const InputSizes& sizes, AttentionLists& to);

// The same of no pass: `rows` rows that fill up.
void MakeEmptyLists(int rows, const InputSizes& sizes, AttentionLists& to);

// Words that suffice for passes of so many rows whose trees are as deep as services take them.
size_t UsualWords(int rows, const InputSizes& sizes);

// Some rows side by side.
struct RowRange {
  size_t first = 0;
  size_t count = 0;
};

// The rows of a tile, cut so that none of these has more than max_partials partials; but a row that
// has more by itself stands alone. Where a tile has room, one range.
std::vector<RowRange> CutTile(const std::vector<kernels::CacheRow>& rows, size_t first,
                              size_t count, uint32_t max_partials);

}  // namespace tandem::torch
