#include "draft_service/drafters/tree_growth.h"

#include <algorithm>
#include <numeric>

#include "common/base/check.h"

namespace tandem::draft_service {

void TreeGrowth::AddChildren(uint32_t node, absl::Span<const sampling::RankedToken> children) {
  TANDEM_CHECK(node <= nodes_.size());
  const uint32_t depth = node == 0 ? 1 : nodes_[node - 1].depth + 1;
  const double above = node == 0 ? 0 : nodes_[node - 1].score;
  TANDEM_CHECK(depth <= max_depth_) << depth;
  for (const sampling::RankedToken& child : children) {
    nodes_.push_back({child.token, node, depth, above + std::min(child.score, 0.0), false});
  }
}

std::vector<uint32_t> TreeGrowth::Ordered() const {
  std::vector<uint32_t> order(nodes_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [this](uint32_t a, uint32_t b) { return nodes_[a].score > nodes_[b].score; });
  if (order.size() > max_nodes_) order.resize(max_nodes_);
  return order;
}

std::vector<uint32_t> TreeGrowth::Next(size_t count) {
  std::vector<uint32_t> next;
  for (const uint32_t i : Ordered()) {
    if (next.size() == count) break;
    if (nodes_[i].expanded || nodes_[i].depth == max_depth_) continue;
    nodes_[i].expanded = true;
    next.push_back(i + 1);
  }
  return next;
}

speculation::CandidateTree TreeGrowth::Best() const {
  speculation::CandidateTree tree;
  std::vector<uint32_t> renamed(nodes_.size() + 1, 0);
  for (const uint32_t i : Ordered()) {
    tree.tokens.push_back(nodes_[i].token);
    tree.parents.push_back(renamed[nodes_[i].parent]);
    renamed[i + 1] = static_cast<uint32_t>(tree.size());
  }
  return tree;
}

uint32_t TreeGrowth::Child(uint32_t node, uint32_t token) const {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].parent == node && nodes_[i].token == token) return static_cast<uint32_t>(i) + 1;
  }
  return 0;
}

std::vector<uint32_t> TreeGrowth::Path(uint32_t node) const {
  std::vector<uint32_t> path;
  for (; node > 0; node = parent(node)) path.push_back(token(node));
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace tandem::draft_service
