// What a pass is to a device: its shape, and arrays of numbers that it reads. Everything else of a
// pass is the same for all passes of one shape, so a graph that was captured of one of them
// computes each of them.
//
// Rows are filled up to whole tiles by a dummy sequence, which has one scratch page: its rows hold
// token 0 at position 0, see themselves, and write what nobody reads.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "torch/library/interface.h"

namespace tandem::torch {

// Both are whole tiles, and one of RowSizes.
struct PassShape {
  int rows = 0;         // at least one tile
  int logits_rows = 0;  // 0: no row has logits

  bool operator==(const PassShape&) const = default;
};

struct InputSizes {
  int tile = 0;
  int max_rows = 0;   // of a pass
  int max_pages = 0;  // of a row
  uint32_t scratch_page = 0;
};

// The numbers of rows that passes are filled up to, ascending. Up to four tiles these are all whole
// tiles; from there on there are four between a number and its double, so a fifth of a pass fills
// it up at most, and a few more graphs are enough for twice as many rows. The last one is the
// smallest whole number of tiles that has room for max_rows.
std::vector<int> RowSizes(int tile, int max_rows);

// Of each part of the pass: how many of its cells its rows may look at.
std::vector<int> CellsInSight(const PassRows& pass);

// The smallest shape that has room. The pass has at most max_rows rows.
PassShape ShapeOf(const PassRows& pass, const InputSizes& sizes);

// All that ShapeOf gives, the largest first: what a smaller one needs, a larger one has had.
std::vector<PassShape> AllShapes(const InputSizes& sizes);

// Where each array begins, in bytes. One block, so that one copy brings all of it.
struct InputLayout {
  size_t tokens = 0;     // int64 [rows]
  size_t positions = 0;  // int64 [rows]
  size_t cells = 0;      // int64 [rows], in the whole cache
  size_t wanted = 0;     // int64 [logits_rows]: the rows that have logits
  size_t bytes = 0;      // of all
};
InputLayout LayoutOf(const PassShape& shape);

// Fills `to`, of LayoutOf(shape).bytes bytes. Rows of the pass fit into the shape. Without rows all
// are the dummy's.
void PackInputs(const PassRows& pass, const PassShape& shape, const InputSizes& sizes, char* to);

}  // namespace tandem::torch
