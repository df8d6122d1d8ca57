// Drafts token by token from a table of successors (successor_table.h). No model.
//
//   proposal  candidate                                                            sent as q
//   greedy    the likeliest successor of the token before it                       nothing
//   sampled   drawn from the successors, at the draft's temperature                their weights
//   sampled, rule coupled: drawn with the target's noise                           nothing
//
// (candidate_draw.h has the same for a model.) Where the table has a continuation of the successor,
// that follows as it is, one-hot. The block ends where the table knows no successor, which depends on
// the tokens before and not on a drawn token's fate.
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

#include "draft_service/drafter.h"
#include "draft_service/successor_table.h"

namespace tandem::draft_service {

struct SuccessorOptions {
  std::string name;
  // For requests that do not say; not kDefault.
  Proposal proposal = Proposal::kGreedy;
};

DrafterFactory SuccessorFactory(SuccessorOptions options,
                                std::shared_ptr<const SuccessorTable> table);

// Appends the likeliest chain after `last` to the block, until the block has `max_draft_tokens` or
// the table knows nothing. One-hot; the block has no q.
void AppendLikeliest(const SuccessorTable& table, uint32_t last, uint32_t max_draft_tokens,
                     CandidateTree& block);

}  // namespace tandem::draft_service
