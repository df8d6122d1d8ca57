#include "model/pass_layout.h"

namespace tandem::model {

PassLayout::PassLayout(int max_rows) {
  parts_.reserve(max_rows);
  tokens_.reserve(max_rows);
  positions_.reserve(max_rows);
  logits_rows_.reserve(max_rows);
}

void PassLayout::Lay(absl::Span<const ForwardPart> parts) {
  parts_.clear();
  tokens_.clear();
  positions_.clear();
  logits_rows_.clear();
  tree_rows_.clear();
  tree_cells_.clear();
  for (const ForwardPart& part : parts) {
    auto* cache = static_cast<PagedCache*>(part.cache);
    const int first = rows();
    const int count = static_cast<int>(part.tokens.size());
    parts_.push_back({cache, first, count, cache->length(), part.parents, part.grows});
    if (!part.parents.empty()) LayTree(parts_.back());
    tokens_.insert(tokens_.end(), part.tokens.begin(), part.tokens.end());
    for (int row = 0; row < count; ++row) positions_.push_back(Position(parts_.back(), row));
    for (int row = part.first_logits_row; row < count; ++row) logits_rows_.push_back(first + row);
  }
}

// Row i of a tree lies in cell base + i. What it sees is what its parent sees, and its parent. The rows
// of a tree that grows are those that it had, and the part's.
void PassLayout::LayTree(const Part& part) {
  const LastPart& had = part.cache->last_part();
  const int open = part.grows ? had.rows() : 0;
  const int base = part.position - open;
  open_rows_.resize(open);
  tree_rows_.resize(part.first_row + part.rows);
  const auto row_of = [&](int i) -> TreeRow& {
    return i < open ? open_rows_[i] : tree_rows_[part.first_row + i - open];
  };
  for (int i = 0; i < open + part.rows; ++i) {
    const int parent = i < open ? had.parent(i) : part.parents[i - open];
    const int cell = base + i;
    TreeRow row{base, base, static_cast<int>(tree_cells_.size())};
    if (parent >= 0) {
      const TreeRow& above = row_of(parent);
      row.position = above.position + 1;
      row.straight = above.straight;
      for (int at = above.straight; at <= above.position; ++at) {
        tree_cells_.push_back(tree_cells_[above.first_rest + at - above.straight]);
      }
    }
    if (row.straight == row.position && cell == row.position) {
      ++row.straight;
    } else {
      tree_cells_.push_back(cell);
    }
    row_of(i) = row;
  }
}

int PassLayout::Position(const Part& part, int row) const {
  return part.parents.empty() ? part.position + row : tree_rows_[part.first_row + row].position;
}

cpu::Sight PassLayout::Sight(const Part& part, int row) const {
  if (part.parents.empty()) return {part.position + row + 1, part.position + row + 1, nullptr};
  const TreeRow& at = tree_rows_[part.first_row + row];
  return {at.position + 1, at.straight, tree_cells_.data() + at.first_rest};
}

}  // namespace tandem::model
