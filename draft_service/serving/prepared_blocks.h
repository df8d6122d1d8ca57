// Blocks that are made in advance: from the Block of an Advance that asked for them
// (Shape.max_outcomes), its base, to the blocks for the base's likeliest outcomes.
//
//   Begin ──▶ being made ──▶ Send: sent, in one burst ──▶ Submitted of one: the next base
//                │                  │
//                └──────────────────┴──▶ End: an Advance came, or the sequence ends
//
// A block goes to its client before anybody knows whether it is wanted. The client tells which one
// is (Submitted). Then the outcome's tokens are committed without an Advance.
//
// Preparing takes rows of the model's passes that nobody else wants (pass_builder.h). It does not
// begin where kMaxPreparing sequences are at work.
//
// Thread safety: the drafting thread alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/ids.h"
#include "draft_service/drafters/drafter.h"
#include "draft_service/passes/passes.h"
#include "draft_service/sequences/sequence_table.h"
#include "draft_service/sequences/sequences.h"
#include "draft_service/serving/answers.h"
#include "draft_service/serving/draft_observer.h"
#include "draft_service/serving/streams.h"

namespace tandem::draft_service {

// Sequences at work, that one that prepares included.
inline constexpr size_t kMaxPreparing = 8;

class PreparedBlocks {
 public:
  // All references outlive it. `vocabulary_size`: ids below it are tokens.
  PreparedBlocks(uint32_t vocabulary_size, Streams& streams, Answers& answers, Sequences& sequences,
                 Passes& passes, DraftObserver& observer);

  // `advance` was answered with `block`. Its drafter wants rows now, or nothing is to be prepared.
  void Begin(Sequence& sequence, const Unanswered& advance, const CandidateTree& block);
  // Its drafter wants no rows any more, and no Advance is unanswered.
  void Send(Sequence& sequence);
  // A block went to verification, cut to its first `nodes` tokens. One that is neither the base nor
  // one of those sent for it is old: ignored.
  void OnSubmitted(Sequence& sequence, base::BlockId block, uint32_t nodes);
  // Nothing is prepared for it any more.
  void End(Sequence& sequence);

 private:
  void BeginPreparing(Sequence& sequence);
  void Cut(Sequence& sequence, uint32_t nodes);
  void Take(Sequence& sequence, size_t outcome);

  const uint32_t vocabulary_size_;
  Streams& streams_;
  Answers& answers_;
  Sequences& sequences_;
  Passes& passes_;
  DraftObserver& observer_;
};

}  // namespace tandem::draft_service
