// Attention of a few query rows over the pages of one sequence, for one key/value head.
//
// Keys lie as panels of 32 cells, values as panels of 32 elements, so both products are
// Kernels::multiply: scores sum over the head's elements in order, outputs over positions in order,
// from position 0 on. What a row gives depends on its own positions only (kernels.h), not on the
// cells that they lie in: in a chain position i lies in cell i, in a tree a row's last few do not.
//
// Keys and values are float32, or bf16: rounded when they are written, widened in registers. A row
// reads its own key and value from there, too, so how tokens were cut into passes does not show.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/cpu/buffer.h"
#include "model/cpu/kernels.h"

namespace tandem::model::cpu {

inline constexpr int kPageTokens = 256;   // a page holds cells 256·i to 256·i + 255
inline constexpr int kMaxQueryRows = 64;  // of one Attend

struct AttentionShape {
  int head_size = 0;
  WeightType type = WeightType::kFloat32;  // or kBfloat16: what keys and values are held as

  int padded_head() const { return RoundUpToPanel(head_size); }
  // Room of one key/value head in one page, in floats: two numbers of bf16 have that of one. Keys
  // [256 / 32][head_size][32], then values [padded_head / 32][256][32].
  size_t key_floats() const { return Floats(head_size); }
  size_t head_floats() const { return Floats(head_size) + Floats(padded_head()); }

 private:
  size_t Floats(int columns) const {
    return static_cast<size_t>(kPageTokens / kPanelColumns) * columns * WordsPerK(type);
  }
};

// Where one layer's key/value head of a sequence lies: in page i of the list, at `offset`.
struct HeadPages {
  float* pool = nullptr;
  size_t page_floats = 0;
  size_t offset = 0;
  const uint32_t* pages = nullptr;

  float* at(int i) const { return pool + pages[i] * page_floats + offset; }
};

// key and value: float32 [head_size].
void WriteKeyValue(const AttentionShape& shape, const HeadPages& head, int cell, const float* key,
                   const float* value);

// What lies in cell `from` lies in cell `to` as well.
void CopyKeyValue(const AttentionShape& shape, const HeadPages& head, int from, int to);

// The positions that a query row sees, first to visible - 1, and where they lie: those below
// `straight` in cells of their own numbers, the others in rest[0], rest[1], …, which ascend and are
// at least `straight`; rest[0] belongs to position `straight`. At least one is visible.
struct Sight {
  int visible = 0;
  int straight = 0;
  const int* rest = nullptr;  // [visible - straight]
  int first = 0;              // below visible

  int cell(int position) const {
    return position < straight ? position : rest[position - straight];
  }
};

// One thread's room. `queries` is filled by the caller, `out` read by it.
class AttentionScratch {
 public:
  AttentionScratch(const AttentionShape& shape, int context_length);

  // Of one Attend to at most `cells` cells: kMaxQueryRows, or fewer where the scores of a long
  // context would not stay in cache. At least 8.
  int MaxRows(int cells) const;
  float* query(int row) { return queries_.floats() + static_cast<size_t>(row) * shape_.head_size; }
  float* out(int row) { return out_.floats() + static_cast<size_t>(row) * shape_.padded_head(); }
  float* scores() { return scores_.floats(); }
  // From a row's scores to the next one's, if there are those of `cells` cells. Not a power of two,
  // so that the rows do not fall on the same cache sets.
  static size_t ScoresStride(int cells) {
    return static_cast<size_t>(RoundUpToPanel(cells)) + kPanelColumns;
  }

 private:
  AttentionShape shape_;
  Buffer queries_;  // [kMaxQueryRows, head_size]
  Buffer scores_;   // [rows, ScoresStride]
  Buffer out_;      // [kMaxQueryRows, padded_head]
};

// softmax(query · keys) · values for `rows` queries (rotated and scaled already), 1 to the
// scratch's MaxRows; row r sees what sights[r] says. Keys and values come from memory once for all
// of them.
void Attend(const Kernels& kernels, const AttentionShape& shape, const HeadPages& head,
            const Sight* sights, int rows, AttentionScratch& scratch);

}  // namespace tandem::model::cpu
