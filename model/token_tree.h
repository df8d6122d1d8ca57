// The shape of a part whose tokens are a tree (ForwardPart::parents), and what a cache remembers of
// the part that it took last, with those that have grown it.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace tandem::model {

// INVALID_ARGUMENT, naming the first that is wrong, unless `parents` is empty or has one entry per
// token, each from -1 to the number before its own. The first token's own number is `first`.
absl::Status CheckParents(absl::Span<const int> parents, size_t tokens, int first = 0);

// The part that a cache took last: which of its rows may stay. Breaking a rule of Cache is a
// TANDEM_CHECK here. Thread safety: none.
class LastPart {
 public:
  // A part of `rows` tokens was taken at `base`. `parents` as CheckParents wants them; copied.
  void Set(int base, int rows, absl::Span<const int> parents);

  // Another part of `rows` tokens goes on with it; `parents` number the rows of both.
  void Grow(int rows, absl::Span<const int> parents);

  // The cache was rolled back to `length`.
  void Truncate(int length);

  // Only these rows stay, moved together. Gives the cache's length. `path` as Cache::Keep says.
  int Keep(absl::Span<const int> path);

  int base() const { return base_; }
  int rows() const { return rows_; }  // that are still held
  int parent(int row) const { return parents_.empty() ? row - 1 : parents_[row]; }

  // Whether the rows are not one chain: nothing may be computed after them.
  bool branches() const { return rows_ > chain_; }

 private:
  int base_ = 0;
  int rows_ = 0;              // that are still held
  int chain_ = 0;             // leading rows of which each follows the one before
  std::vector<int> parents_;  // empty: a chain
};

}  // namespace tandem::model
