// The shapes that a length policy chooses among: chains of 0 to kMaxDraftTokens draft tokens,
// chains that end where their draft is in doubt, and a few trees. Shapes 0 to kMaxDraftTokens are
// the chains of as many tokens. Those that end by confidence follow, each at less of it than the
// one before, and the trees, each with more nodes.
//
// How long a path of a tree may be was chosen, and not measured: the draft has a pass for each
// token of it, and in trees that are grown best node first most paths end before.
//
// Plain values.
#pragma once

#include <array>
#include <cstdint>

#include "orchestrator/draft/length/policy.h"

namespace tandem::orchestrator {

struct DraftShape {
  uint32_t tokens = 0;        // on the longest path
  uint32_t nodes = 0;         // of a tree; 0: a chain
  double min_confidence = 0;  // LengthChoice::min_confidence
};

inline constexpr std::array<double, 3> kConfidences = {0.3, 0.1, 0.03};
// Most chains end before.
inline constexpr uint32_t kConfidentTokens = 8;

inline constexpr std::array<DraftShape, 4> kTreeShapes = {{{4, 8}, {6, 16}, {8, 32}, {10, 64}}};
inline constexpr uint32_t kFirstConfident = kMaxDraftTokens + 1;
inline constexpr uint32_t kFirstTree = kFirstConfident + kConfidences.size();
inline constexpr uint32_t kShapes = kFirstTree + kTreeShapes.size();
// Fewer nodes than these are not a tree for a policy.
inline constexpr uint32_t kMinPolicyNodes = kTreeShapes.front().nodes;

constexpr bool IsTree(uint32_t shape) { return shape >= kFirstTree; }
constexpr bool IsConfident(uint32_t shape) { return shape >= kFirstConfident && !IsTree(shape); }
constexpr bool IsChain(uint32_t shape) { return shape <= kMaxDraftTokens; }
constexpr DraftShape ShapeOf(uint32_t shape) {
  if (IsTree(shape)) return kTreeShapes[shape - kFirstTree];
  if (IsConfident(shape)) return {kConfidentTokens, 0, kConfidences[shape - kFirstConfident]};
  return {shape};
}

using ByShape = std::array<double, kShapes>;

}  // namespace tandem::orchestrator
