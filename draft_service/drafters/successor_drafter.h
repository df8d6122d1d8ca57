// Drafts token by token from a table of successors (successor_table.h). No model.
//
//   proposal  draft token                                                            sent as q
//   greedy    the likeliest successor of the token before it                       nothing
//   sampled   drawn from the successors, at the draft's temperature                their weights
//   sampled, rule coupled: drawn with the target's noise                           nothing
//
// (candidate_draw.h has the same for a model.) Where the table has a continuation of the successor,
// that follows as it is, one-hot. The block ends where the table knows no successor, which depends
// on the tokens before and not on a drawn token's fate.
//
// As a tree: the successors rank by the same q, under coupled by the race with the target's noise,
// each token after its own path. A continuation's first token gets half of the weight, and the
// successors share the other half.
//
// Of the sampling options only the temperature counts here. A banned token stays in the block and
// has p = 0 at the target.
//
// Sources: Leviathan et al. 2023, arXiv 2211.17192, §4.2 (unigram, bigram of a corpus); Stewart et
// al. 2024, arXiv 2411.03786, §4.1 (derived from a model).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "draft_service/drafters/candidate_draw.h"
#include "draft_service/drafters/drafter.h"
#include "draft_service/ngrams/successor_table.h"

namespace tandem::draft_service {

// Thread safety: as drafter.h says; what tables hold is shared by all.
class SuccessorChain {
 public:
  // kDefault is kSampled: a table is hardly ever sure, and what it draws is accepted more often
  // than its likeliest token (docs/ngrams.md).
  // `level`: as CandidateDraw's.
  SuccessorChain(std::shared_ptr<const SuccessorTable> table,
                 const speculation::SequenceSettings& settings, Proposal proposal,
                 uint8_t level = 0);

  // As Drafter::Accept.
  void Accept(uint32_t keep, absl::Span<const uint32_t> tokens);
  // Appends to a chain that follows the committed tokens, and has less than `max_draft_tokens`,
  // until it has as many or the table knows nothing. What the chain has without a q stays one-hot.
  void Extend(uint32_t max_draft_tokens, CandidateTree& block);

  // Of a tree: what the table knows after a node.
  struct Place {
    uint32_t token = 0;                       // the node's own
    uint32_t depth = 0;                       // of the node; 0: the root
    absl::Span<const uint32_t> continuation;  // of a successor above, what is left of it
  };
  struct Follower {
    uint32_t token;
    double weight;
    Place place;
  };
  // A tree begins. The root's place; not where no token is committed.
  Place BeginTree();
  // Distinct tokens, whose weights sum to 1 at most. Not where the block has a q.
  std::vector<Follower> Followers(const Place& place) const;
  // Whether a tree can begin.
  bool empty() const { return text_.empty(); }

 private:
  const std::shared_ptr<const SuccessorTable> table_;
  const double temperature_;
  CandidateDraw draw_;
  std::vector<uint32_t> text_;
};

// A drafter whose block is such a chain.
DrafterFactory SuccessorFactory(std::string name, std::shared_ptr<const SuccessorTable> table);

}  // namespace tandem::draft_service
