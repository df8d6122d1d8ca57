#include "common/speculation/candidate_tree.h"

#include <algorithm>
#include <utility>

namespace tandem::speculation {
namespace {

// Of each token, from 1.
std::vector<uint32_t> Depths(const CandidateTree& tree) {
  std::vector<uint32_t> depths(tree.size());
  for (size_t i = 0; i < depths.size(); ++i) {
    const uint32_t parent = tree.parent(i);
    depths[i] = parent == 0 ? 1 : depths[parent - 1] + 1;
  }
  return depths;
}

// Keeps the tokens of these nodes, which ascend. The parent of each is one of them, or the root.
void KeepNodes(const std::vector<uint32_t>& nodes, CandidateTree& tree) {
  if (nodes.size() == tree.size()) return;
  std::vector<uint32_t> renamed(tree.size() + 1, 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const uint32_t from = nodes[i] - 1;
    renamed[nodes[i]] = static_cast<uint32_t>(i) + 1;
    tree.tokens[i] = tree.tokens[from];
    if (!tree.parents.empty()) tree.parents[i] = renamed[tree.parents[from]];
    if (!tree.q.empty() && i != from) tree.q[i] = std::move(tree.q[from]);
  }
  tree.Truncate(nodes.size());
}

}  // namespace

uint32_t CandidateTree::depth() const {
  if (parents.empty()) return static_cast<uint32_t>(size());
  const std::vector<uint32_t> depths = Depths(*this);
  return depths.empty() ? 0 : *std::max_element(depths.begin(), depths.end());
}

size_t CandidateTree::EqualSibling() const {
  if (parents.empty()) return size();
  for (size_t i = 1; i < size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (parents[i] == parents[j] && tokens[i] == tokens[j]) return i;
    }
  }
  return size();
}

void CandidateTree::Cut(size_t max_nodes, uint32_t max_depth) {
  const std::vector<uint32_t> depths = Depths(*this);
  std::vector<uint32_t> kept;
  for (size_t i = 0; i < size(); ++i) {
    if (depths[i] <= max_depth) kept.push_back(static_cast<uint32_t>(i) + 1);
  }
  if (kept.size() > max_nodes) kept.resize(max_nodes);
  KeepNodes(kept, *this);
}

void CandidateTree::CutToChain() {
  if (parents.empty()) return;
  std::vector<uint32_t> kept;
  uint32_t end = 0;
  for (size_t i = 0; i < size(); ++i) {
    if (parents[i] != end) continue;
    end = static_cast<uint32_t>(i) + 1;
    kept.push_back(end);
  }
  KeepNodes(kept, *this);
  parents.clear();
}

}  // namespace tandem::speculation
