// Random trees of tokens, and the paths through them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/types/span.h"

namespace tandem::model::testing {

// Parents of `count` rows: now chains, now siblings, now anything.
inline std::vector<int> RandomTree(std::mt19937& random, int count) {
  std::vector<int> parents;
  const auto kind = random() % 3;
  for (int i = 0; i < count; ++i) {
    const int any = static_cast<int>(random() % static_cast<uint32_t>(i + 1)) - 1;
    const bool chain = kind == 0 || (kind == 1 && random() % 2 == 0);
    parents.push_back(chain && random() % 8 != 0 ? i - 1 : any);
  }
  return parents;
}

// The rows from the tree's beginning to `row`.
inline std::vector<int> PathTo(absl::Span<const int> parents, int row) {
  std::vector<int> path;
  for (; row >= 0; row = parents[row]) path.push_back(row);
  std::reverse(path.begin(), path.end());
  return path;
}

// The text that ends with `row` of a tree that follows `held`.
inline std::vector<uint32_t> PathTokens(absl::Span<const uint32_t> held,
                                        absl::Span<const uint32_t> tokens,
                                        absl::Span<const int> parents, size_t row) {
  std::vector<uint32_t> text(held.begin(), held.end());
  for (int i : PathTo(parents, static_cast<int>(row))) text.push_back(tokens[i]);
  return text;
}

}  // namespace tandem::model::testing
