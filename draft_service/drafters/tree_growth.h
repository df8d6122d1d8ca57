// Which nodes a drafted tree gets, from the best on. A node's score is the product of the weights
// on its path: an estimate of the chance that its whole path stands. So the best nodes are a tree
// by themselves, and the sum of their scores is the number of tokens that are expected to stand.
//
//   AddChildren(0, …)           what ranks first after the root
//   Next(count) → AddChildren   the best leaves, which the draft model looks behind; repeatedly
//   Best()                      the tree
//
// What a node's token is decides whether it is drafted. That is exact under rules greedy and
// coupled alone (common/acceptance/tree.h).
//
// Thread safety: none of its own; one sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/sampling/distribution.h"
#include "common/speculation/candidate_tree.h"

namespace tandem::draft_service {

class TreeGrowth {
 public:
  // Nodes, and tokens on a path; both at least 1.
  TreeGrowth(uint32_t max_nodes, uint32_t max_depth)
      : max_nodes_(max_nodes), max_depth_(max_depth) {}

  // The tokens that may follow `node` (0: the root), which are distinct, with the logarithms of
  // their weights. Once a node.
  void AddChildren(uint32_t node, absl::Span<const sampling::RankedToken> children);

  // The best `count` or fewer of the nodes of Best() that nobody has looked behind yet and that a
  // path may go on from. Each is returned once, the best first.
  std::vector<uint32_t> Next(size_t count);

  // At most max_nodes nodes, each after its parent.
  speculation::CandidateTree Best() const;

  // The child of `node` with this token; 0: it has none.
  uint32_t Child(uint32_t node, uint32_t token) const;
  uint32_t token(uint32_t node) const { return nodes_[node - 1].token; }
  uint32_t parent(uint32_t node) const { return nodes_[node - 1].parent; }
  std::vector<uint32_t> Path(uint32_t node) const;  // its tokens from the root on

 private:
  struct Node {
    uint32_t token;
    uint32_t parent;
    uint32_t depth;
    double score;  // its logarithm
    bool expanded;
  };

  // Indices of nodes_, the best first. A parent is before its children.
  std::vector<uint32_t> Ordered() const;

  const uint32_t max_nodes_;
  const uint32_t max_depth_;
  std::vector<Node> nodes_;  // node i is nodes_[i - 1]; a parent comes before its children
};

}  // namespace tandem::draft_service
