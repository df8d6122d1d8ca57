// A drafted block: the draft tokens that a draft proposes and the target judges. It is one value
// from the drafter to the verdict. The draft service makes it, the orchestrator hands it on, and
// the target service keeps it with its Step. Its codec (candidate_tree_codec.h) is beside it.
//
// The draft tokens are the nodes of a tree. Node 0 is the root, the last committed token. Token i
// is node i + 1. A chain is the tree in which each token follows the one before. It has no
// `parents`, so the common case allocates nothing for its shape.
//
// No message of the wire and nothing of gRPC is in here: what computes a model may include it.
//
// Thread safety: a plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/ids.h"
#include "common/sampling/sparse.h"

namespace tandem::speculation {

// Draft tokens of a tree, under every service's own limit.
inline constexpr uint32_t kMaxTreeNodes = 64;

// Without tokens it is not a block: there was nothing to propose, or a round is plain decoding.
struct CandidateTree {
  base::BlockId id{};            // unique within a sequence, given by the draft service; 0 = none
  std::vector<uint32_t> tokens;  // ids; from a peer any ids
  // The node that each token follows, 0 to its own index. Empty: a chain.
  std::vector<uint32_t> parents;
  // What each token was drawn from, or empty: all tokens are one-hot. A distribution without ids
  // says the same of its token.
  std::vector<sampling::SparseDistribution> q;

  size_t size() const { return tokens.size(); }
  bool empty() const { return tokens.empty(); }

  // Also where `parents` spells the chain out.
  bool is_chain() const {
    if (parents.empty()) return true;
    if (parents.size() != tokens.size()) return false;
    for (size_t i = 0; i < parents.size(); ++i) {
      if (parents[i] != i) return false;
    }
    return true;
  }

  // False: `parents` is not a tree's. There is one for each token, and it comes before the token.
  bool has_valid_parents() const {
    if (parents.empty()) return true;
    if (parents.size() != tokens.size()) return false;
    for (size_t i = 0; i < parents.size(); ++i) {
      if (parents[i] > i) return false;
    }
    return true;
  }

  // The node that token `i` follows. The parents are valid.
  uint32_t parent(size_t i) const {
    return parents.empty() ? static_cast<uint32_t>(i) : parents[i];
  }

  // Tokens on the longest path from the root; of a chain all. The parents are valid.
  uint32_t depth() const;

  // The first token that equals an earlier one with the same parent, or size(). The parents are
  // valid.
  size_t EqualSibling() const;

  // Leaves out tokens so that at most `max_nodes` stay, and none deeper than `max_depth`: first
  // those that are too deep, then the last ones. The parents are valid.
  void Cut(size_t max_nodes, uint32_t max_depth);

  // Leaves the chain of first children: what a receiver gets that takes no trees.
  void CutToChain();

  // Keeps the first `size` tokens, at most all, with what belongs to them. That is a tree, too,
  // because a token comes after the node that it follows.
  void Truncate(size_t size) {
    tokens.resize(size);
    if (!parents.empty()) parents.resize(size);
    if (!q.empty()) q.resize(size);
  }

  // Leaves out the first `count` tokens of a chain without `parents`, at most all.
  void DropFirst(size_t count) {
    tokens.erase(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(count));
    if (!q.empty()) q.erase(q.begin(), q.begin() + static_cast<ptrdiff_t>(count));
  }

  // One q a token, or none. Whether a token can have been drawn from its q is another question
  // (sampling::ValidateFor).
  bool has_valid_q_count() const { return q.empty() || q.size() == tokens.size(); }
};

}  // namespace tandem::speculation
