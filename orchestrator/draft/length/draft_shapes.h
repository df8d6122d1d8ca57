// The shapes that a length policy chooses among: chains of 0 to kMaxDraftTokens draft tokens, and a few
// trees. Shapes 0 to kMaxDraftTokens are the chains of as many tokens; the trees follow, each with more
// nodes than the one before.
//
// How long a path of a tree may be was chosen, and not measured: the draft has a pass for each token of it, and
// in trees that are grown best node first most paths end before.
//
// Plain values.
#pragma once

#include <array>
#include <cstdint>

#include "orchestrator/draft/length/policy.h"

namespace tandem::orchestrator {

struct DraftShape {
  uint32_t tokens = 0;  // on the longest path
  uint32_t nodes = 0;   // of a tree; 0: a chain
};

inline constexpr std::array<DraftShape, 4> kTreeShapes = {{{4, 8}, {6, 16}, {8, 32}, {10, 64}}};
inline constexpr uint32_t kChainShapes = kMaxDraftTokens + 1;
inline constexpr uint32_t kShapes = kChainShapes + kTreeShapes.size();
// Fewer nodes than these are no tree for a policy.
inline constexpr uint32_t kMinPolicyNodes = kTreeShapes.front().nodes;

constexpr bool IsTree(uint32_t shape) { return shape >= kChainShapes; }
constexpr DraftShape ShapeOf(uint32_t shape) {
  return IsTree(shape) ? kTreeShapes[shape - kChainShapes] : DraftShape{shape, 0};
}

using ByShape = std::array<double, kShapes>;

}  // namespace tandem::orchestrator
