#include "model/cpu/attention.h"

#include <algorithm>
#include <cstring>

namespace tandem::model::cpu {
namespace {

// scores[r, p] of all positions up to the last row's; those that a row does not see are overwritten
// later.
void Scores(const Kernels& kernels, const AttentionShape& shape, const HeadSpans& head,
            int positions, int rows, AttentionScratch& scratch) {
  MultiplyArgs args;
  args.x = scratch.query(0);
  args.x_stride = shape.head_size;
  args.rows = rows;
  args.k = shape.head_size;
  args.panel_words = static_cast<size_t>(shape.head_size) * kPanelColumns;
  args.out_stride = scratch.scores_stride();
  for (int first = 0; first < positions; first += kSpanTokens) {
    const int count = std::min(kSpanTokens, positions - first);
    args.panels = head.at(first / kSpanTokens);
    args.panel_count = RoundUpToPanel(count) / kPanelColumns;
    args.out = scratch.scores() + first;
    args.out_columns = RoundUpToPanel(count);
    kernels.multiply(args);
  }
}

// out[r] += weights · values over positions [begin, end), in order.
void AddValues(const Kernels& kernels, const AttentionShape& shape, const HeadSpans& head,
               int begin, int end, int row, int rows, AttentionScratch& scratch) {
  MultiplyArgs args;
  args.x_stride = scratch.scores_stride();
  args.rows = rows;
  args.panel_words = static_cast<size_t>(kSpanTokens) * kPanelColumns;
  args.panel_count = shape.padded_head() / kPanelColumns;
  args.epilogue = Epilogue::kAccumulate;
  args.out = scratch.out(row);
  args.out_stride = shape.padded_head();
  args.out_columns = shape.padded_head();
  while (begin < end) {
    const int inside = begin % kSpanTokens;
    const int count = std::min(end - begin, kSpanTokens - inside);
    args.x = scratch.scores() + static_cast<size_t>(row) * scratch.scores_stride() + begin;
    args.k = count;
    args.panels = head.at(begin / kSpanTokens) + shape.key_floats() +
                  static_cast<size_t>(inside) * kPanelColumns;
    kernels.multiply(args);
    begin += count;
  }
}

}  // namespace

AttentionScratch::AttentionScratch(const AttentionShape& shape, int context_length)
    : shape_(shape),
      // Not a power of two, so that the rows do not fall on the same cache sets.
      scores_stride_(static_cast<size_t>(RoundUpToPanel(context_length)) + kPanelColumns),
      queries_(FloatBuffer(static_cast<size_t>(kMostQueryRows) * shape.head_size)),
      scores_(FloatBuffer(kMostQueryRows * scores_stride_)),
      out_(FloatBuffer(static_cast<size_t>(kMostQueryRows) * shape.padded_head())) {}

void WriteKeyValue(const AttentionShape& shape, const HeadSpans& head, int position,
                   const float* key, const float* value) {
  float* keys = head.at(position / kSpanTokens);
  float* values = keys + shape.key_floats();
  const int inside = position % kSpanTokens;
  float* lane = keys +
                static_cast<size_t>(inside / kPanelColumns) * shape.head_size * kPanelColumns +
                inside % kPanelColumns;
  for (int d = 0; d < shape.head_size; ++d) lane[static_cast<size_t>(d) * kPanelColumns] = key[d];
  for (int d = 0; d < shape.head_size; d += kPanelColumns) {
    float* row =
        values + (static_cast<size_t>(d / kPanelColumns) * kSpanTokens + inside) * kPanelColumns;
    const int count = std::min(kPanelColumns, shape.head_size - d);
    std::memcpy(row, value + d, count * sizeof(float));
  }
}

void Attend(const Kernels& kernels, const AttentionShape& shape, const HeadSpans& head,
            const int* visible, int rows, AttentionScratch& scratch) {
  Scores(kernels, shape, head, visible[rows - 1], rows, scratch);
  float sums[kMostQueryRows];
  for (int r = 0; r < rows; ++r) {
    sums[r] = kernels.softmax(scratch.scores() + r * scratch.scores_stride(), visible[r]);
  }
  std::memset(scratch.out(0), 0, sizeof(float) * rows * shape.padded_head());
  // What all rows see is read once; the rest of each row follows in its own order.
  AddValues(kernels, shape, head, 0, visible[0], 0, rows, scratch);
  for (int r = 0; r < rows; ++r) {
    if (visible[r] > visible[0]) {
      AddValues(kernels, shape, head, visible[0], visible[r], r, 1, scratch);
    }
    float* out = scratch.out(r);
    const float scale = 1.0f / sums[r];
    for (int d = 0; d < shape.head_size; ++d) out[d] *= scale;
  }
}

}  // namespace tandem::model::cpu
