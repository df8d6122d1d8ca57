// Trees of draft tokens, under the rules that draw at the target whatever the draft was: greedy and
// coupled.
//
// The target has a token of its own for every node: argmax p at temperature 0, else its race with
// the noise of the node's position. All nodes of one depth stand at one position and share its
// noise. The walk begins at the root. It follows the child that carries the node's own token, and
// ends where no child does; that token is then what follows. So what is committed is, token by
// token, what the target draws alone, whatever the tree was: which nodes it has, in which order,
// and why, can change only how far a round comes. Under the other rules that is not so: a second
// sibling would have to be judged by what is left of p after the first was rejected.
//
// SpecInfer (Miao et al. 2024, arXiv 2305.09781) verifies trees greedily so. For lists of
// draft tokens under shared noise: Rowan et al. 2025, "List-Level Distribution Coupling" (arXiv
// 2506.05632).
//
// Nodes are numbered as in speculation::CandidateTree: node 0 is the root, draft token i is node i
// + 1, and parents[i] <= i is the node that it follows.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/acceptance/rule.h"

namespace tandem::acceptance {

bool HasTrees(Rule rule);  // greedy and coupled

// Of each node, the root first: 0, then 1 more than its parent's.
std::vector<uint32_t> NodeDepths(absl::Span<const uint32_t> parents);

// `draws`: [K + 1], the target's own token at each node. K + 1 entries: a child has accept
// probability 1 when its token is its parent's draw, else 0. A node with such a child cannot be the
// end and has no next token; any other node's is its draw. Siblings are different tokens. Of a
// chain spelled out these are the entries of JudgeGreedy.
std::vector<Entry> JudgeTree(absl::Span<const uint32_t> draws,
                             absl::Span<const uint32_t> candidates,
                             absl::Span<const uint32_t> parents);

// The walk. CHECKs its shape: a caller validates what came over a wire. `rejected`: the walk ended
// at a node with children, none of which stands.
Decision DecideTree(absl::Span<const Entry> entries, absl::Span<const uint32_t> parents);

// What an orchestrator checks in the verdict of a tree: one entry per node and one for the root;
// accept probabilities of 0 and 1; at most one child of a node stands; a node has a next token
// exactly where no child stands, below vocabulary_size, and no child carries it.
absl::Status ValidateTreeEntries(absl::Span<const Entry> entries,
                                 absl::Span<const uint32_t> candidates,
                                 absl::Span<const uint32_t> parents, uint32_t vocabulary_size);

}  // namespace tandem::acceptance
