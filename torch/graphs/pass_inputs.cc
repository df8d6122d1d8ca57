#include "torch/graphs/pass_inputs.h"

#include <algorithm>

namespace tandem::torch {
namespace {

int WholeTiles(size_t rows, int tile) {
  const auto size = static_cast<size_t>(tile);
  return static_cast<int>((rows + size - 1) / size * size);
}

constexpr int kFineTiles = 4;  // up to which every whole number of tiles is a size

int StepBehind(int rows, int tile) {
  int step = tile;
  while (rows >= 2 * kFineTiles * step) step *= 2;
  return step;
}

// Rows with logits of passes of `rows` rows, ascending. In a pass of more than four tiles few rows
// have any, or, where rounds fill it, nearly all.
std::vector<int> LogitsSizes(int rows, int tile) {
  std::vector<int> sizes = {0};
  const bool fine = rows <= kFineTiles * tile;
  for (int size = tile; size < rows; size = fine ? size + tile : size * 4) sizes.push_back(size);
  sizes.push_back(rows);
  return sizes;
}

int SmallestWithRoom(const std::vector<int>& sizes, size_t rows) {
  return *std::lower_bound(sizes.begin(), sizes.end(), static_cast<int>(rows));
}

template <typename T>
T* At(char* block, size_t offset) {
  return reinterpret_cast<T*>(block + offset);
}

}  // namespace

std::vector<int> RowSizes(int tile, int max_rows) {
  const int last = WholeTiles(static_cast<size_t>(max_rows), tile);
  std::vector<int> sizes;
  for (int rows = tile; rows < last; rows += StepBehind(rows, tile)) sizes.push_back(rows);
  sizes.push_back(last);
  return sizes;
}

std::vector<int> CellsInSight(const PassRows& pass) {
  std::vector<int> cells(pass.pages.size(), 0);
  for (const Row& row : pass.rows) {
    int& last = cells[static_cast<size_t>(row.part)];
    last = std::max(last, row.straight);
    for (int i = 0; i < row.visible - row.straight; ++i) last = std::max(last, row.rest[i] + 1);
  }
  return cells;
}

PassShape ShapeOf(const PassRows& pass, const InputSizes& sizes) {
  PassShape shape;
  shape.rows = SmallestWithRoom(RowSizes(sizes.tile, sizes.max_rows), pass.rows.size());
  shape.logits_rows =
      SmallestWithRoom(LogitsSizes(shape.rows, sizes.tile), pass.logits_rows.size());
  return shape;
}

std::vector<PassShape> AllShapes(const InputSizes& sizes) {
  std::vector<PassShape> shapes;
  for (const int rows : RowSizes(sizes.tile, sizes.max_rows)) {
    for (const int logits : LogitsSizes(rows, sizes.tile)) shapes.push_back({rows, logits});
  }
  std::reverse(shapes.begin(), shapes.end());
  return shapes;
}

InputLayout LayoutOf(const PassShape& shape) {
  const size_t rows = static_cast<size_t>(shape.rows);
  InputLayout layout;
  layout.positions = layout.tokens + rows * sizeof(int64_t);
  layout.cells = layout.positions + rows * sizeof(int64_t);
  layout.wanted = layout.cells + rows * sizeof(int64_t);
  layout.bytes = layout.wanted + static_cast<size_t>(shape.logits_rows) * sizeof(int64_t);
  return layout;
}

void PackInputs(const PassRows& pass, const PassShape& shape, const InputSizes& sizes, char* to) {
  const InputLayout layout = LayoutOf(shape);
  std::fill_n(At<int64_t>(to, layout.tokens), shape.rows, 0);
  std::fill_n(At<int64_t>(to, layout.positions), shape.rows, 0);
  std::fill_n(At<int64_t>(to, layout.cells), shape.rows, int64_t{sizes.scratch_page} * kPageTokens);
  std::fill_n(At<int64_t>(to, layout.wanted), shape.logits_rows, 0);
  for (size_t i = 0; i < pass.rows.size(); ++i) {
    const Row& row = pass.rows[i];
    const uint32_t* pages = pass.pages[static_cast<size_t>(row.part)];
    At<int64_t>(to, layout.tokens)[i] = row.token;
    At<int64_t>(to, layout.positions)[i] = row.position;
    At<int64_t>(to, layout.cells)[i] =
        int64_t{pages[row.cell / kPageTokens]} * kPageTokens + row.cell % kPageTokens;
  }
  std::copy(pass.logits_rows.begin(), pass.logits_rows.end(), At<int64_t>(to, layout.wanted));
}

}  // namespace tandem::torch
