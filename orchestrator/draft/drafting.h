// Where one request's blocks come from: asks its draft (draft_link.h) for them, waits no longer
// than a block is worth, judges what came, and does without when the draft is late, lost or wrong.
//
// `waiting_` says that a round stands still for the answer. At the round's deadline it ends, and
// later rounds do not wait again until the draft has answered: a stopped draft costs a request one
// deadline, not one a round. And a draft that was late is waited for half as long the next time,
// down to a sixteenth, until it is in time again: one that is too slow for the moment costs less
// and less. Whatever comes while nobody waits is dropped whole: by time, never by what is in it, so
// that the output's distribution does not change.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/concurrency/clock.h"
#include "orchestrator/draft/draft_link.h"
#include "orchestrator/draft/draft_session.h"
#include "orchestrator/request/committed_tokens.h"
#include "orchestrator/request/loop_options.h"
#include "orchestrator/request/loop_timers.h"
#include "orchestrator/request/request.h"
#include "orchestrator/request/round_observer.h"

namespace tandem::orchestrator {

// What a round gets: a block, or the cause for having none.
struct Drafted {
  CandidateTree block;
  std::optional<PlainCause> cause;  // present exactly when the block is empty
  // Of the wait for it, what the draft says that it had it; absent: it has not answered.
  std::optional<absl::Duration> at_draft = std::nullopt;
};

// Not thread-safe: one request's strand. An event returns a value when a round was waiting and has
// its answer now.
class Drafting {
 public:
  // `session` null: no draft is configured. `committed` and all other references outlive this.
  Drafting(const SampleRequest& request, const LoopOptions& options,
           const CommittedTokens& committed, DraftSession* session, LoopTimers& timers,
           const concurrency::Clock& clock, RoundObserver& observer);

  void Open() { link_.Open(); }  // unless no draft is wanted, or none fits
  void Close();                  // frees everything at the draft; no event has an effect until Open

  // Asks for up to `max_draft_tokens` (at least 1) candidates after the committed tokens. Answers
  // at once when there is nothing to wait for; else within `wait`, through an event.
  std::optional<Drafted> Ask(uint32_t max_draft_tokens, absl::Duration wait);

  void Submitted(const CandidateTree& block) { link_.Submitted(block); }
  // The target took the block for none: the draft is opened anew, after a while.
  void Refused();
  // How the block was decided; goes with the next Advance.
  void Decided(const BlockOutcome& outcome) { link_.Decided(outcome); }

  std::optional<Drafted> OnOpened(base::DraftAttempt attempt, const DraftLimits& limits);
  std::optional<Drafted> OnBlock(base::DraftAttempt attempt, DraftReplyBlock reply);
  std::optional<Drafted> OnLost(base::DraftAttempt attempt, DraftLoss loss);
  std::optional<Drafted> OnDeadline();
  void OnReopen() { link_.OnReopen(); }

  uint32_t reconnections() const { return link_.reconnections(); }

 private:
  std::optional<Drafted> SendAdvance();
  Drafted Judge(DraftReplyBlock reply);
  Drafted JudgeBlock(DraftReplyBlock reply);
  Drafted GiveUp(DraftLoss loss, PlainCause cause, absl::Duration at_least = absl::ZeroDuration());
  std::optional<Drafted> Answer(Drafted drafted);

  const SampleRequest request_;
  const CommittedTokens& committed_;
  LoopTimers& timers_;
  const concurrency::Clock& clock_;

  DraftLink link_;
  bool waiting_ = false;
  base::DraftAttempt late_attempt_{};  // that a round waited for in vain to be opened
  double patience_ = 1;                // share of the wait that is granted
  concurrency::Instant deadline_;      // of the waiting round
  uint32_t wanted_tokens_ = 0;         // by the waiting round
  uint32_t asked_tokens_ = 0;          // by the unanswered Advance
  absl::Duration on_the_way_;  // of an Advance and its answer, beside the draft's own time; average
  bool unserved_logged_ = false;  // the first of a text's blocks is enough
};

}  // namespace tandem::orchestrator
