// Where each row of a step comes from, stands and looks: the tables that a step reads, made of its
// parts before it runs. Rows are the parts' tokens, one part after the other.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "model/cpu/attention.h"
#include "model/language_model.h"
#include "model/span_cache.h"

namespace tandem::model {

// Thread safety: many threads may read; none while Lay runs.
class StepLayout {
 public:
  struct Part {
    SpanCache* cache;
    int first_row;
    int rows;
    int position;  // of its first row: what the cache held before the step
    absl::Span<const int> parents;
  };

  // Reserves room for steps of so many rows.
  explicit StepLayout(int max_rows);

  // Replaces what was laid before. The parts are checked, and all caches are SpanCaches; their
  // parents must outlive the step.
  void Lay(absl::Span<const StepPart> parts);

  const std::vector<Part>& parts() const { return parts_; }
  int rows() const { return static_cast<int>(tokens_.size()); }
  uint32_t token(int row) const { return tokens_[row]; }
  const std::vector<int>& logits_rows() const { return logits_rows_; }  // those that get logits

  // Of row `row` of a part: the position that its token stands at, and what it sees. A Sight points
  // into this.
  int Position(const Part& part, int row) const;
  cpu::Sight Sight(const Part& part, int row) const;

 private:
  // A row of a tree, as cpu::Sight wants it.
  struct TreeRow {
    int position;
    int straight;
    int first_rest;  // in tree_slots_
  };

  void LayTree(const Part& part);

  std::vector<Part> parts_;
  std::vector<uint32_t> tokens_;  // of all rows
  std::vector<int> logits_rows_;
  std::vector<TreeRow> tree_rows_;  // of all rows, those of chains unused; empty: no part is a tree
  std::vector<int> tree_slots_;     // the `rest` of all rows
};

}  // namespace tandem::model
