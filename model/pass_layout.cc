#include "model/pass_layout.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "model/token_tree.h"

namespace tandem::model {

absl::Status CheckPass(absl::Span<const ForwardPart> parts, const PageStore& store,
                       uint32_t vocabulary_size, int max_rows, uint64_t step) {
  size_t rows = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const ForwardPart& part = parts[i];
    auto wrong = [i](auto... what) {
      return absl::InvalidArgumentError(absl::StrCat("part ", i, ": ", what...));
    };
    auto* cache = dynamic_cast<PagedCache*>(part.cache);
    if (cache == nullptr || cache->pool() != &store) {
      return wrong("its cache is not one of this model's");
    }
    if (std::exchange(cache->last_step, step) == step) return wrong("its cache comes twice");
    if (part.tokens.empty()) return wrong("it has no tokens");
    const size_t count = part.tokens.size();
    if (count > static_cast<size_t>(cache->max_length() - cache->length())) {
      return wrong(count, " tokens do not fit: the cache holds ", cache->length(), " of ",
                   cache->max_length());
    }
    const LastPart& last = cache->last_part();
    if (part.grows && (part.parents.empty() || last.base() + last.rows() != cache->length())) {
      return wrong("it grows a tree, and ", part.parents.empty()
                                                ? "has no parents"
                                                : "its cache did not end with the last part");
    }
    const int open = part.grows ? last.rows() : 0;
    if (absl::Status status = CheckParents(part.parents, count, open); !status.ok()) {
      return wrong(status.message());
    }
    if (!part.grows && cache->branches())
      return wrong("its cache holds a tree; a path of it must be kept first");
    if (part.first_logits_row < 0 || static_cast<size_t>(part.first_logits_row) > count) {
      return wrong("first_logits_row is ", part.first_logits_row, "; 0 to ", count);
    }
    for (uint32_t token : part.tokens) {
      if (token >= vocabulary_size) {
        return wrong("token ", token, " is not below the vocabulary's ", vocabulary_size);
      }
    }
    rows += count;
  }
  if (rows > static_cast<size_t>(max_rows)) {
    return absl::InvalidArgumentError(absl::StrCat(rows, " rows in one pass; at most ", max_rows));
  }
  return absl::OkStatus();
}

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

// Row i of a tree lies in cell base + i. What it sees is what its parent sees, and its parent. The
// rows of a tree that grows are those that it had, and the part's.
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
