#include "model/step_layout.h"

namespace tandem::model {

StepLayout::StepLayout(int max_rows) {
  parts_.reserve(max_rows);
  tokens_.reserve(max_rows);
  logits_rows_.reserve(max_rows);
}

void StepLayout::Lay(absl::Span<const StepPart> parts) {
  parts_.clear();
  tokens_.clear();
  logits_rows_.clear();
  tree_rows_.clear();
  tree_slots_.clear();
  for (const StepPart& part : parts) {
    auto* cache = static_cast<SpanCache*>(part.cache);
    const int first = rows();
    const int count = static_cast<int>(part.tokens.size());
    parts_.push_back({cache, first, count, cache->length(), part.parents});
    if (!part.parents.empty()) LayTree(parts_.back());
    tokens_.insert(tokens_.end(), part.tokens.begin(), part.tokens.end());
    for (int row = part.first_logits_row; row < count; ++row) logits_rows_.push_back(first + row);
  }
}

// Row i lies in slot position + i. What it sees is what its parent sees, and its parent.
void StepLayout::LayTree(const Part& part) {
  tree_rows_.resize(part.first_row + part.rows);
  for (int i = 0; i < part.rows; ++i) {
    const int parent = part.parents[i];
    const int slot = part.position + i;
    TreeRow row{part.position, part.position, static_cast<int>(tree_slots_.size())};
    if (parent >= 0) {
      const TreeRow& above = tree_rows_[part.first_row + parent];
      row.position = above.position + 1;
      row.straight = above.straight;
      for (int at = above.straight; at <= above.position; ++at) {
        tree_slots_.push_back(tree_slots_[above.first_rest + at - above.straight]);
      }
    }
    if (row.straight == row.position && slot == row.position) {
      ++row.straight;
    } else {
      tree_slots_.push_back(slot);
    }
    tree_rows_[part.first_row + i] = row;
  }
}

int StepLayout::Position(const Part& part, int row) const {
  return part.parents.empty() ? part.position + row : tree_rows_[part.first_row + row].position;
}

cpu::Sight StepLayout::Sight(const Part& part, int row) const {
  if (part.parents.empty()) return {part.position + row + 1, part.position + row + 1, nullptr};
  const TreeRow& at = tree_rows_[part.first_row + row];
  return {at.position + 1, at.straight, tree_slots_.data() + at.first_rest};
}

}  // namespace tandem::model
