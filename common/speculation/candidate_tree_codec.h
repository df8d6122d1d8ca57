// Candidate trees to and from the wire: Block (draft.proto), and the block of a Step
// (target.proto). Both messages have the same fields for it; a Step calls the tokens `candidates`.
//
// Thread safety: pure functions.
#pragma once

#include <optional>

#include "common/messages/refusal.h"
#include "common/speculation/candidate_tree.h"
#include "tandem/internal/v1/draft.pb.h"
#include "tandem/internal/v1/target.pb.h"

namespace tandem::speculation {

// Sets the tree's fields of a message that has none of them yet. A chain is sent without parents.
// A tree without tokens: a Step gets nothing at all, and a Block gets the id.
void ToWire(const CandidateTree& tree, internal::v1::Block& block);
void ToWire(const CandidateTree& tree, internal::v1::Step& step);

// The tree as it was sent, well formed or not; no parents where they spell a chain.
CandidateTree FromWire(const internal::v1::Block& block);
CandidateTree FromWire(const internal::v1::Step& step);

// What is wrong with the shape of a tree that came from a peer; nothing: it is well formed. The
// refusal is INVALID and its field is "parents", an entry of these, or "q". Siblings are different
// tokens, and a tree that branches has no q. Which trees a service serves is its own to say.
std::optional<messages::Refusal> CheckCandidateTree(const CandidateTree& tree);

}  // namespace tandem::speculation
