// Where each row of a pass comes from, stands and looks: the tables that a pass reads, made of its
// parts before it runs. Rows are the parts' tokens, one part after the other.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "model/cpu/attention.h"
#include "model/language_model.h"
#include "model/page_store.h"
#include "model/paged_cache.h"

namespace tandem::model {

// Whether a pass may be computed, before anything of it is. INVALID_ARGUMENT as
// LanguageModel::Forward says. Caches are PagedCaches of `store`. `step` is another number in each
// pass of a model, above 0: it tells a cache that comes twice.
absl::Status CheckPass(absl::Span<const ForwardPart> parts, const PageStore& store,
                       uint32_t vocabulary_size, int max_rows, uint64_t step);

// Thread safety: many threads may read; none while Lay runs.
class PassLayout {
 public:
  struct Part {
    PagedCache* cache;
    int first_row;
    int rows;
    int position;  // of its first row: what the cache held before the pass
    absl::Span<const int> parents;
    bool grows;
  };

  // Reserves room for passes of so many rows.
  explicit PassLayout(int max_rows);

  // Replaces what was laid before. CheckPass has accepted the parts: all caches are PagedCaches;
  // their parents must outlive the pass.
  void Lay(absl::Span<const ForwardPart> parts);

  const std::vector<Part>& parts() const { return parts_; }
  int rows() const { return static_cast<int>(tokens_.size()); }
  uint32_t token(int row) const { return tokens_[row]; }
  int position(int row) const { return positions_[row]; }  // that the row's token stands at
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
    int first_rest;  // in tree_cells_
  };

  void LayTree(const Part& part);

  std::vector<Part> parts_;
  std::vector<uint32_t> tokens_;  // of all rows
  std::vector<int> positions_;    // of all rows
  std::vector<int> logits_rows_;
  std::vector<TreeRow> tree_rows_;  // of all rows, those of chains unused; empty: no part is a tree
  std::vector<int> tree_cells_;     // the `rest` of all rows
  std::vector<TreeRow> open_rows_;  // of a part that grows: the rows before its own
};

}  // namespace tandem::model
