#include "model/cpu/attention.h"

#include <algorithm>
#include <cstring>

namespace tandem::model::cpu {
namespace {

// scores[r, s] of all cells below `cells`; those that a row does not see are overwritten later.
void Scores(const Kernels& kernels, const AttentionShape& shape, const HeadPages& head, int cells,
            int rows, AttentionScratch& scratch) {
  MultiplyArgs args;
  args.x = scratch.query(0);
  args.x_stride = shape.head_size;
  args.rows = rows;
  args.k = shape.head_size;
  args.panel_words = static_cast<size_t>(shape.head_size) * kPanelColumns;
  args.out_stride = scratch.scores_stride();
  for (int first = 0; first < cells; first += kPageTokens) {
    const int count = std::min(kPageTokens, cells - first);
    args.panels = head.at(first / kPageTokens);
    args.panel_count = RoundUpToPanel(count) / kPanelColumns;
    args.out = scratch.scores() + first;
    args.out_columns = RoundUpToPanel(count);
    kernels.multiply(args);
  }
}

// out[r] += weights · values over `count` positions from `position` on, in order, whose values lie
// in the cells from `cell` on.
void AddValues(const Kernels& kernels, const AttentionShape& shape, const HeadPages& head,
               int position, int cell, int count, int row, int rows, AttentionScratch& scratch) {
  MultiplyArgs args;
  args.x_stride = scratch.scores_stride();
  args.rows = rows;
  args.panel_words = static_cast<size_t>(kPageTokens) * kPanelColumns;
  args.panel_count = shape.padded_head() / kPanelColumns;
  args.epilogue = Epilogue::kAccumulate;
  args.out = scratch.out(row);
  args.out_stride = shape.padded_head();
  args.out_columns = shape.padded_head();
  args.x = scratch.scores() + static_cast<size_t>(row) * scratch.scores_stride() + position;
  const int end = cell + count;
  while (cell < end) {
    const int inside = cell % kPageTokens;
    args.k = std::min(end - cell, kPageTokens - inside);
    args.panels = head.at(cell / kPageTokens) + shape.key_floats() +
                  static_cast<size_t>(inside) * kPanelColumns;
    kernels.multiply(args);
    args.x += args.k;
    cell += args.k;
  }
}

// Where cell `cell` begins: its key's elements lie kPanelColumns apart, its value's panels
// kPageTokens · kPanelColumns apart.
float* KeyOf(const AttentionShape& shape, const HeadPages& head, int cell) {
  const int inside = cell % kPageTokens;
  return head.at(cell / kPageTokens) +
         static_cast<size_t>(inside / kPanelColumns) * shape.head_size * kPanelColumns +
         inside % kPanelColumns;
}
float* ValueOf(const AttentionShape& shape, const HeadPages& head, int cell) {
  return head.at(cell / kPageTokens) + shape.key_floats() +
         static_cast<size_t>(cell % kPageTokens) * kPanelColumns;
}

}  // namespace

AttentionScratch::AttentionScratch(const AttentionShape& shape, int context_length)
    : shape_(shape),
      // Not a power of two, so that the rows do not fall on the same cache sets.
      scores_stride_(static_cast<size_t>(RoundUpToPanel(context_length)) + kPanelColumns),
      queries_(FloatBuffer(static_cast<size_t>(kMaxQueryRows) * shape.head_size)),
      scores_(FloatBuffer(kMaxQueryRows * scores_stride_)),
      out_(FloatBuffer(static_cast<size_t>(kMaxQueryRows) * shape.padded_head())) {}

void WriteKeyValue(const AttentionShape& shape, const HeadPages& head, int cell, const float* key,
                   const float* value) {
  float* lane = KeyOf(shape, head, cell);
  for (int d = 0; d < shape.head_size; ++d) lane[static_cast<size_t>(d) * kPanelColumns] = key[d];
  float* values = ValueOf(shape, head, cell);
  for (int d = 0; d < shape.head_size; d += kPanelColumns) {
    const int count = std::min(kPanelColumns, shape.head_size - d);
    std::memcpy(values + static_cast<size_t>(d) * kPageTokens, value + d, count * sizeof(float));
  }
}

void CopyKeyValue(const AttentionShape& shape, const HeadPages& head, int from, int to) {
  const float* key_from = KeyOf(shape, head, from);
  float* key_to = KeyOf(shape, head, to);
  for (int d = 0; d < shape.head_size; ++d) {
    key_to[static_cast<size_t>(d) * kPanelColumns] =
        key_from[static_cast<size_t>(d) * kPanelColumns];
  }
  const float* value_from = ValueOf(shape, head, from);
  float* value_to = ValueOf(shape, head, to);
  for (int d = 0; d < shape.head_size; d += kPanelColumns) {
    const int count = std::min(kPanelColumns, shape.head_size - d);
    const size_t at = static_cast<size_t>(d) * kPageTokens;
    std::memcpy(value_to + at, value_from + at, count * sizeof(float));
  }
}

void Attend(const Kernels& kernels, const AttentionShape& shape, const HeadPages& head,
            const Sight* sights, int rows, AttentionScratch& scratch) {
  int cells = 0;
  int common = sights[0].straight;  // positions that all rows see and find in cells of that number
  for (int r = 0; r < rows; ++r) {
    const Sight& sight = sights[r];
    const int past = sight.visible - sight.straight;
    cells = std::max(cells, past == 0 ? sight.visible : sight.rest[past - 1] + 1);
    common = std::min(common, sight.straight);
  }
  Scores(kernels, shape, head, cells, rows, scratch);
  float sums[kMaxQueryRows];
  for (int r = 0; r < rows; ++r) {
    const Sight& sight = sights[r];
    float* scores = scratch.scores() + r * scratch.scores_stride();
    // Cells to positions; the cells ascend, so nothing is overwritten before it has moved.
    for (int i = sight.straight; i < sight.visible; ++i) {
      scores[i] = scores[sight.rest[i - sight.straight]];
    }
    sums[r] = kernels.softmax(scores, sight.visible);
  }
  std::memset(scratch.out(0), 0, sizeof(float) * rows * shape.padded_head());
  // What all rows see is read once; the rest of each row follows in its own order.
  AddValues(kernels, shape, head, 0, 0, common, 0, rows, scratch);
  for (int r = 0; r < rows; ++r) {
    const Sight& sight = sights[r];
    if (sight.straight > common) {
      AddValues(kernels, shape, head, common, common, sight.straight - common, r, 1, scratch);
    }
    for (int i = sight.straight; i < sight.visible; ++i) {
      AddValues(kernels, shape, head, i, sight.rest[i - sight.straight], 1, r, 1, scratch);
    }
    float* out = scratch.out(r);
    const float scale = 1.0f / sums[r];
    for (int d = 0; d < shape.head_size; ++d) out[d] *= scale;
  }
}

}  // namespace tandem::model::cpu
