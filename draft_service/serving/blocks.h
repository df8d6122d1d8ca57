// The blocks that are being drafted: from an Advance to its one Block.
//
//   Begin ──▶ drafting ──▶ whole ──▶ answered
//     │           └──────▶ late, failed, or its sequence is closed ──▶ answered
//     └──▶ refused; or proposed at once, by a drafter without a model ──▶ answered
//
// An Advance that arrives is in the next pass; its Block goes out when it is whole, waiting for no
// other.
//
// When the time that an Advance allows is over, what has been drafted is its Block. That is exact:
// every token that was drawn is sent, and whether the next one is drawn is decided before, by the
// clock alone.
//
// Thread safety: the drafting thread alone.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/messages/refusal.h"
#include "draft_service/drafters/drafter.h"
#include "draft_service/passes/passes.h"
#include "draft_service/sequences/events.h"
#include "draft_service/sequences/sequence_table.h"
#include "draft_service/sequences/sequences.h"
#include "draft_service/serving/answers.h"
#include "draft_service/serving/prepared_blocks.h"
#include "draft_service/serving/streams.h"
#include "tandem/internal/v1/draft.pb.h"

namespace tandem::draft_service {

class Blocks {
 public:
  // All references outlive it. `vocabulary_size`: ids below it are tokens.
  Blocks(uint32_t vocabulary_size, const concurrency::Clock& clock, Streams& streams,
         Answers& answers, Sequences& sequences, Passes& passes, PreparedBlocks& prepared);

  void Begin(AdvanceArrives event);
  // Ends what is late before a pass that it would be in, or that would make it later than it may
  // be.
  void CutLate();
  // A pass is over: its draft tokens, and what they make whole.
  void OnPassEnded(const EndedPass& pass);
  // The sequence has an unanswered Advance, which gets this answer.
  void Refuse(Sequence& sequence, messages::Refusal refusal);
  // The sequence's stream ended: its unanswered Advance, if there is one, gets no answer.
  void Drop(Sequence& sequence);

 private:
  // The refusal is the answer; without one a block may be drafted.
  std::optional<messages::Refusal> Accept(Sequence& sequence, const CheckedAdvance& advance,
                                          concurrency::Instant arrived);
  void Propose(Sequence& sequence, concurrency::Instant began);
  CandidateTree EndBlock(Sequence& sequence);  // counted as computed
  void AnswerDrafted(Sequence& sequence, CandidateTree drafted);
  void Answer(Sequence& sequence, internal::v1::Block block);

  const uint32_t vocabulary_size_;
  const concurrency::Clock& clock_;
  Streams& streams_;
  Answers& answers_;
  Sequences& sequences_;
  Passes& passes_;
  PreparedBlocks& prepared_;
};

}  // namespace tandem::draft_service
