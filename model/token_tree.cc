#include "model/token_tree.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace tandem::model {

absl::Status CheckParents(absl::Span<const int> parents, size_t tokens, int first) {
  if (parents.empty()) return absl::OkStatus();
  if (parents.size() != tokens) {
    return absl::InvalidArgumentError(absl::StrCat(parents.size(), " parents for ", tokens,
                                                   " tokens; one each, or none for a chain"));
  }
  for (size_t i = 0; i < parents.size(); ++i) {
    const int own = first + static_cast<int>(i);
    if (parents[i] < -1 || parents[i] >= own) {
      return absl::InvalidArgumentError(
          absl::StrCat("parents[", i, "] is ", parents[i], "; -1 to ", own - 1));
    }
  }
  return absl::OkStatus();
}

void LastPart::Set(int base, int rows, absl::Span<const int> parents) {
  base_ = base;
  rows_ = rows;
  parents_.assign(parents.begin(), parents.end());
  chain_ = 0;
  while (chain_ < rows && (parents_.empty() || parents_[chain_] == chain_ - 1)) ++chain_;
}

void LastPart::Grow(int rows, absl::Span<const int> parents) {
  if (parents_.empty()) {
    for (int row = 0; row < rows_; ++row) parents_.push_back(row - 1);
  }
  parents_.resize(rows_);
  parents_.insert(parents_.end(), parents.begin(), parents.end());
  rows_ += rows;
  chain_ = 0;
  while (chain_ < rows_ && parents_[chain_] == chain_ - 1) ++chain_;
}

void LastPart::Truncate(int length) {
  base_ = std::min(base_, length);
  rows_ = std::min(rows_, length - base_);
}

int LastPart::Keep(absl::Span<const int> path) {
  int before = -1;
  for (const int row : path) {
    TANDEM_CHECK(row > before && row < rows_)
        << "row " << row << " after " << before << " in a path through " << rows_ << " rows";
    const int parent = parents_.empty() ? row - 1 : parents_[row];
    TANDEM_CHECK(parent == before)
        << "a path goes from row " << before << " to " << row << ", whose parent is " << parent;
    before = row;
  }
  rows_ = chain_ = static_cast<int>(path.size());
  parents_.clear();
  return base_ + rows_;
}

}  // namespace tandem::model
