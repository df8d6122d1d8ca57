// Gets the blocks of one request. It asks the draft for them (draft_link.h), waits no longer than a
// block is worth, judges what came, and does without a block when the draft is late, lost or wrong.
//
// `waiting_` is true while a round waits for the answer. The wait ends at the round's deadline, and
// later rounds do not wait until the draft has answered. So a stopped draft costs a request one
// deadline, not one per round. After a late answer the next wait is half as long, down to a
// sixteenth, until an answer is in time again. So a draft that is too slow for the moment costs
// less and less. A block that comes while nobody waits is dropped whole. Time alone decides that,
// never the block's content, so the output's distribution does not change.
//
// A block that the draft has prepared for the last verdict (prepared_blocks.h) is there at once:
// then nobody is asked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/concurrency/clock.h"
#include "orchestrator/draft/draft_link.h"
#include "orchestrator/draft/draft_session.h"
#include "orchestrator/draft/prepared_blocks.h"
#include "orchestrator/request/committed_tokens.h"
#include "orchestrator/request/loop_options.h"
#include "orchestrator/request/loop_timers.h"
#include "orchestrator/request/request.h"
#include "orchestrator/request/round_observer.h"
#include "orchestrator/request/round_record.h"

namespace tandem::orchestrator {

// What a round gets: a block, or the cause for which it has none.
struct Drafted {
  CandidateTree block;
  std::optional<PlainCause> cause;  // present exactly when the block is empty
  // The part of the wait that the draft says it had the Advance. Absent if the draft has not
  // answered.
  std::optional<absl::Duration> at_draft = std::nullopt;
  absl::Duration queued = absl::ZeroDuration();  // of at_draft: waiting for the drafting thread
};

// Not thread-safe: used on the request's strand. An event returns a value if a round was waiting
// and now has its answer.
class Drafting {
 public:
  // A null `session` means that no draft is configured. `committed` and all other references
  // outlive this object.
  Drafting(const SampleRequest& request, const LoopOptions& options,
           const CommittedTokens& committed, DraftSession* session, LoopTimers& timers,
           const concurrency::Clock& clock, RoundObserver& observer);

  // Drafts with another drafter from now on (draft_link.h). Call while no round waits.
  void Use(const std::string& drafter) { link_.Use(drafter); }
  void Open() { link_.Open(); }              // does nothing if no draft is wanted or none fits
  void EnsureOpen() { link_.EnsureOpen(); }  // the same, where it is closed
  void Close();  // frees everything at the draft; events have no effect until Open

  // Asks for a block. A draft that has no trees: for a chain. Returns the result at once if there
  // is nothing to wait for. Otherwise an event returns it within `wait`.
  std::optional<Drafted> Ask(const DraftLink::Wanted& wanted, absl::Duration wait);

  // `block` goes to verification, after the committed tokens.
  void Submitted(const CandidateTree& block);
  // What was prepared for the block that was submitted last, so far.
  absl::Span<const PreparedBlock> prepared() const { return prepared_.blocks(); }
  // Notes in the record whether the last block that was asked for had been prepared.
  void Record(RoundRecord& round) const;
  // The target took the block as none. The draft is opened again after a while.
  void Refused();
  // Notes how the block was decided. The next Advance carries it.
  void Decided(const BlockOutcome& outcome);

  std::optional<Drafted> OnOpened(base::DraftAttempt attempt, const DraftLimits& limits);
  std::optional<Drafted> OnBlock(base::DraftAttempt attempt, DraftReplyBlock reply);
  void OnPrepared(base::DraftAttempt attempt, std::vector<PreparedBlock> prepared);
  std::optional<Drafted> OnLost(base::DraftAttempt attempt, DraftLoss loss);
  std::optional<Drafted> OnDeadline();
  void OnReopen() { link_.OnReopen(); }

  uint32_t reconnections() const { return link_.reconnections(); }
  // Nodes of the trees that the draft makes for this request; 0: chains alone, or it is not known.
  uint32_t max_nodes() const { return link_.limits().max_nodes; }
  // It can end chains by its confidence; false, too, where that is not known.
  bool ends_by_confidence() const { return link_.limits().ends_by_confidence; }
  bool prepares() const { return link_.limits().prepares; }  // likewise
  bool is_known() const { return link_.was_opened(); }

 private:
  std::optional<Drafted> TakePrepared(const DraftLink::Wanted& wanted);
  std::optional<Drafted> SendAdvance();
  Drafted Judge(DraftReplyBlock reply);
  bool FitsShape(const CandidateTree& block) const;
  Drafted JudgeBlock(DraftReplyBlock reply);
  Drafted GiveUp(DraftLoss loss, PlainCause cause, absl::Duration at_least = absl::ZeroDuration());
  std::optional<Drafted> Answer(Drafted drafted);

  const SampleRequest request_;
  const CommittedTokens& committed_;
  LoopTimers& timers_;
  const concurrency::Clock& clock_;

  DraftLink link_;
  PreparedBlocks prepared_;  // by the link's present attempt
  PreparedUse prepared_use_ = PreparedUse::kNone;
  DraftLink::Wanted prepared_by_;                   // the Advance for which blocks were prepared
  concurrency::Instant submitted_at_, decided_at_;  // the block that blocks are prepared behind
  std::optional<absl::Duration> prepared_in_;       // the first of them, after that
  bool waiting_ = false;
  base::DraftAttempt late_attempt_{};  // that a round waited for in vain to be opened
  double patience_ = 1;                // share of the wait that is granted
  concurrency::Instant deadline_;      // of the waiting round
  DraftLink::Wanted wanted_;           // by the waiting round
  DraftLink::Wanted asked_;            // by the unanswered Advance
  absl::Duration on_the_way_;  // of an Advance and its answer, beside the draft's own time; average
  bool unserved_logged_ = false;  // the first of a text's blocks is enough
};

}  // namespace tandem::orchestrator
