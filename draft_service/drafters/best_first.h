// A tree of guesses, grown from the best node on. A node's score is the product of the weights on
// its path: an estimate of the chance that its whole path stands, when the weights of a node's
// children sum to 1 at most. So the nodes that are taken have the largest sum of scores, which is
// the number of tokens expected to stand, of all trees of as many nodes that are no deeper. k
// guesses of w tokens with their common beginnings put together (N-Grammys) are one of these trees
// of k × w nodes.
//
// For guesses that cost next to nothing. A draft model's tree grows by passes (tree_growth.h).
//
// Which nodes there are depends on their tokens. That is exact under rules greedy and coupled alone
// (common/acceptance/tree.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/speculation/candidate_tree.h"
#include "draft_service/drafters/drafter.h"

namespace tandem::draft_service {

// `root`: what is known after the committed tokens. `expand(state, add)` calls add(token, weight,
// state) for each token that may follow: distinct ones, weights above 0, and what is known after
// the token. Of equal scores the node that was added first comes first. Pure, but for what `expand`
// does.
template <typename State, typename Expand>
CandidateTree GrowBestFirst(const BlockShape& shape, State root, const Expand& expand) {
  struct Guess {
    double score;
    uint32_t number;
    uint32_t parent;
    uint32_t depth;
    uint32_t token;
    State state;
  };
  const auto is_worse = [](const Guess& a, const Guess& b) {
    return a.score != b.score ? a.score < b.score : a.number > b.number;
  };
  CandidateTree block;
  std::vector<Guess> open;  // a heap: the best one first
  uint32_t made = 0;
  const auto expand_node = [&](double score, uint32_t node, uint32_t depth, State state) {
    expand(std::move(state), [&](uint32_t token, double weight, State next) {
      open.push_back({score * weight, made++, node, depth + 1, token, std::move(next)});
      std::push_heap(open.begin(), open.end(), is_worse);
    });
  };
  expand_node(1, 0, 0, std::move(root));
  while (!open.empty() && block.size() < shape.max_nodes) {
    std::pop_heap(open.begin(), open.end(), is_worse);
    Guess best = std::move(open.back());
    open.pop_back();
    block.tokens.push_back(best.token);
    block.parents.push_back(best.parent);
    if (best.depth == shape.max_draft_tokens) continue;
    expand_node(best.score, static_cast<uint32_t>(block.size()), best.depth, std::move(best.state));
  }
  return block;
}

}  // namespace tandem::draft_service
