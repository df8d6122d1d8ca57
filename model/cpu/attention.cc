#include "model/cpu/attention.h"

#include <algorithm>
#include <climits>
#include <cstring>

#include "model/cpu/half.h"

namespace tandem::model::cpu {
namespace {

constexpr size_t kMinQueryRows = 8;
constexpr size_t kScoreFloats = size_t{1} << 20;  // a thread's share of a last cache

// scores[r, s] of all cells from `begin` to `cells` - 1, and of some before `begin`; those that a
// row does not see are overwritten later, or not read.
void Scores(const Kernels& kernels, const AttentionShape& shape, const HeadPages& head, int begin,
            int cells, int rows, AttentionScratch& scratch) {
  MultiplyArgs args;
  args.x = scratch.query(0);
  args.x_stride = shape.head_size;
  args.rows = rows;
  args.k = shape.head_size;
  args.type = shape.type;
  args.panel_words = static_cast<size_t>(shape.head_size) * WordsPerK(shape.type);
  args.out_stride = AttentionScratch::ScoresStride(cells);
  for (int first = begin / kPanelColumns * kPanelColumns; first < cells;) {
    const int inside = first % kPageTokens;
    const int count = std::min(kPageTokens - inside, cells - first);
    args.panels = head.at(first / kPageTokens) + inside / kPanelColumns * args.panel_words;
    args.panel_count = RoundUpToPanel(count) / kPanelColumns;
    args.out = scratch.scores() + first;
    args.out_columns = RoundUpToPanel(count);
    kernels.multiply(args);
    first += count;
  }
}

// out[r] += weights · values over `count` positions from `position` on, in order, whose values lie
// in the cells from `cell` on.
void AddValues(const Kernels& kernels, const AttentionShape& shape, const HeadPages& head,
               int position, int cell, int count, int row, int rows, size_t scores_stride,
               AttentionScratch& scratch) {
  MultiplyArgs args;
  args.x_stride = scores_stride;
  args.rows = rows;
  args.type = shape.type;
  args.panel_words = static_cast<size_t>(kPageTokens) * WordsPerK(shape.type);
  args.panel_count = shape.padded_head() / kPanelColumns;
  args.epilogue = Epilogue::kAccumulate;
  args.out = scratch.out(row);
  args.out_stride = shape.padded_head();
  args.out_columns = shape.padded_head();
  args.x = scratch.scores() + static_cast<size_t>(row) * scores_stride + position;
  const int end = cell + count;
  while (cell < end) {
    const int inside = cell % kPageTokens;
    args.k = std::min(end - cell, kPageTokens - inside);
    args.panels = head.at(cell / kPageTokens) + shape.key_floats() +
                  static_cast<size_t>(inside) * WordsPerK(shape.type);
    kernels.multiply(args);
    args.x += args.k;
    cell += args.k;
  }
}

// Of a panel's row: where a column lies, and what a number becomes.
struct Fp32Lanes {
  using Type = float;
  static int Lane(int column) { return column; }
  static float Rounded(float value) { return value; }
};
struct Bf16Lanes {
  using Type = uint16_t;
  static int Lane(int column) { return Bfloat16Half(column); }
  static uint16_t Rounded(float value) { return ToBfloat16(value); }
};

// A cell's key and value. Elements of the key lie a panel's row apart; of the value 32 lie in one
// panel, and the next 32 in the next one.
template <class Lanes>
class CellOf {
 public:
  CellOf(const AttentionShape& shape, const HeadPages& head, int cell) {
    const int inside = cell % kPageTokens;
    float* const page = head.at(cell / kPageTokens);
    key_ = reinterpret_cast<Type*>(page) +
           static_cast<size_t>(inside / kPanelColumns) * shape.head_size * kPanelColumns +
           Lanes::Lane(inside % kPanelColumns);
    value_ = reinterpret_cast<Type*>(page + shape.key_floats()) +
             static_cast<size_t>(inside) * kPanelColumns;
  }

  typename Lanes::Type& key(int element) {
    return key_[static_cast<size_t>(element) * kPanelColumns];
  }
  typename Lanes::Type& value(int element) {
    return value_[static_cast<size_t>(element / kPanelColumns) * kPageTokens * kPanelColumns +
                  Lanes::Lane(element % kPanelColumns)];
  }

 private:
  using Type = typename Lanes::Type;
  Type* key_;
  Type* value_;
};

template <class Lanes>
void Write(const AttentionShape& shape, const HeadPages& head, int cell, const float* key,
           const float* value) {
  CellOf<Lanes> to(shape, head, cell);
  for (int d = 0; d < shape.head_size; ++d) {
    to.key(d) = Lanes::Rounded(key[d]);
    to.value(d) = Lanes::Rounded(value[d]);
  }
}

template <class Lanes>
void Copy(const AttentionShape& shape, const HeadPages& head, int from, int to) {
  CellOf<Lanes> source(shape, head, from);
  CellOf<Lanes> copy(shape, head, to);
  for (int d = 0; d < shape.head_size; ++d) {
    copy.key(d) = source.key(d);
    copy.value(d) = source.value(d);
  }
}

}  // namespace

AttentionScratch::AttentionScratch(const AttentionShape& shape, int context_length)
    : shape_(shape),
      queries_(FloatBuffer(static_cast<size_t>(kMaxQueryRows) * shape.head_size)),
      scores_(FloatBuffer(std::max(kScoreFloats, kMinQueryRows * ScoresStride(context_length)))),
      out_(FloatBuffer(static_cast<size_t>(kMaxQueryRows) * shape.padded_head())) {}

int AttentionScratch::MaxRows(int cells) const {
  const size_t rows = scores_.bytes() / sizeof(float) / ScoresStride(cells);
  return static_cast<int>(std::min(rows, size_t{kMaxQueryRows}));
}

void WriteKeyValue(const AttentionShape& shape, const HeadPages& head, int cell, const float* key,
                   const float* value) {
  if (shape.type == WeightType::kBfloat16) return Write<Bf16Lanes>(shape, head, cell, key, value);
  Write<Fp32Lanes>(shape, head, cell, key, value);
}

void CopyKeyValue(const AttentionShape& shape, const HeadPages& head, int from, int to) {
  if (shape.type == WeightType::kBfloat16) return Copy<Bf16Lanes>(shape, head, from, to);
  Copy<Fp32Lanes>(shape, head, from, to);
}

void Attend(const Kernels& kernels, const AttentionShape& shape, const HeadPages& head,
            const Sight* sights, int rows, AttentionScratch& scratch) {
  int begin = INT_MAX;  // the first cell that a row sees
  int cells = 0;
  // Positions that all rows see and find in cells of that number.
  int common_begin = 0;
  int common_end = INT_MAX;
  for (int r = 0; r < rows; ++r) {
    const Sight& sight = sights[r];
    begin = std::min(begin, sight.cell(sight.first));
    cells = std::max(cells, sight.cell(sight.visible - 1) + 1);
    common_begin = std::max(common_begin, sight.first);
    common_end = std::min(common_end, sight.straight);
  }
  common_end = std::max(common_end, common_begin);
  const size_t stride = AttentionScratch::ScoresStride(cells);
  Scores(kernels, shape, head, begin, cells, rows, scratch);
  float sums[kMaxQueryRows];
  for (int r = 0; r < rows; ++r) {
    const Sight& sight = sights[r];
    float* scores = scratch.scores() + r * stride;
    // Cells to positions; the cells ascend, so nothing is overwritten before it has moved.
    for (int i = std::max(sight.first, sight.straight); i < sight.visible; ++i) {
      scores[i] = scores[sight.cell(i)];
    }
    sums[r] = kernels.softmax(scores + sight.first, sight.visible - sight.first);
  }
  std::memset(scratch.out(0), 0, sizeof(float) * rows * shape.padded_head());
  // What all rows see is read once. What a row sees before and after it comes in its own order.
  for (int r = 0; r < rows; ++r) {
    const int end = std::min(common_begin, sights[r].straight);
    if (sights[r].first < end) {
      AddValues(kernels, shape, head, sights[r].first, sights[r].first, end - sights[r].first, r, 1,
                stride, scratch);
    }
  }
  AddValues(kernels, shape, head, common_begin, common_begin, common_end - common_begin, 0, rows,
            stride, scratch);
  for (int r = 0; r < rows; ++r) {
    const Sight& sight = sights[r];
    const int after = std::max(common_end, sight.first);
    if (sight.straight > after) {
      AddValues(kernels, shape, head, after, after, sight.straight - after, r, 1, stride, scratch);
    }
    for (int i = std::max(sight.first, sight.straight); i < sight.visible; ++i) {
      AddValues(kernels, shape, head, i, sight.cell(i), 1, r, 1, stride, scratch);
    }
    float* out = scratch.out(r);
    const float scale = 1.0f / sums[r];
    for (int d = 0; d < shape.head_size; ++d) out[d] *= scale;
  }
}

}  // namespace tandem::model::cpu
