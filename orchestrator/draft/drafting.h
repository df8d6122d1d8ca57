// One request's dealings with its draft: asks for blocks, waits no longer than a block is worth,
// does without when the draft is late, lost or wrong, and comes back to it.
//
//   state     meaning                                     next
//   kOff      none is wanted, or none is configured       -
//   kOpening  Open is under way                           kReady; those below
//   kReady    open, nothing asked                         kAsked (Ask); those below
//   kAsked    an Advance is unanswered                    kReady (OnBlock); those below
//   kOpening  the draft is lost, another one is there     as above
//   kDown     all are lost; the reopening alarm is set    kOpening (OnReopen)
//   kRefused  no draft fits                               -
//   kClosed   not wanted at the moment                    kOpening (Open)
//
// Beside the state, `waiting_` says that a round stands still for the answer. At the round's
// deadline it ends, and later rounds do not wait again until the draft has answered (`late_`): a
// stopped draft costs a request one deadline, not one a round. And a draft that was late is waited for half
// as long the next time, down to a sixteenth, until it is in time again: one that is too slow for
// the moment costs less and less. One that is silent for much longer (LoopOptions::draft_silence) is lost:
// another takes its place. Whatever comes while nobody waits is dropped whole: by time, never by what is
// in it, so that the output's distribution does not change.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "orchestrator/draft/draft_session.h"
#include "orchestrator/peers/retry_delay.h"
#include "orchestrator/request/committed_tokens.h"
#include "orchestrator/request/loop_options.h"
#include "orchestrator/request/loop_timers.h"
#include "orchestrator/request/request.h"

namespace tandem::orchestrator {

// What a round gets: a block, or the cause for having none.
struct Drafted {
  CandidateBlock block;
  std::optional<PlainCause> cause;  // present exactly when the block is empty
  // Of the wait for it, what the draft says that it had it; absent: it has not answered.
  std::optional<absl::Duration> at_draft = std::nullopt;
};

// Not thread-safe: one request's strand. An event returns a value when a round was waiting and has
// its answer now.
class Drafting {
 public:
  // `session` null: no draft is configured. `committed` and all other references outlive this.
  Drafting(const GenerationRequest& request, const LoopOptions& options,
           const CommittedTokens& committed, DraftSession* session, LoopTimers& timers,
           const concurrency::Clock& clock);

  void Open();   // unless off or refused
  void Close();  // frees everything at the draft; no event has an effect until Open

  // Asks for up to `max_draft_tokens` (at least 1) candidates after the committed tokens. Answers at
  // once when there is nothing to wait for; else within `wait`, through an event.
  std::optional<Drafted> Ask(uint32_t max_draft_tokens, absl::Duration wait);

  void Submitted(const CandidateBlock& block);
  // The target took the block for none: the draft is opened anew, after a while.
  void Refused();
  // How the block was decided; goes with the next Advance.
  void Decided(const BlockOutcome& outcome);

  std::optional<Drafted> OnOpened(uint64_t attempt, const DraftLimits& limits);
  std::optional<Drafted> OnBlock(uint64_t attempt, DraftReplyBlock reply);
  std::optional<Drafted> OnLost(uint64_t attempt, DraftLoss loss);
  std::optional<Drafted> OnDeadline();
  void OnReopen();

  uint32_t reconnections() const { return reconnections_; }

 private:
  enum class State : uint8_t { kOff, kOpening, kReady, kAsked, kDown, kRefused, kClosed };

  std::optional<Drafted> SendAdvance();
  bool Silent() const;
  Drafted Judge(DraftReplyBlock reply);
  void GoDown(PlainCause cause, absl::Duration at_least);
  void Refuse();
  void GiveUp(DraftLoss loss, PlainCause cause, absl::Duration at_least);
  std::optional<Drafted> Answer(Drafted drafted);
  void Measure(absl::Duration at_draft);
  PrefixDelta PrefixFrom(uint32_t keep) const;

  const GenerationRequest& request_;
  const LoopOptions& options_;
  const CommittedTokens& committed_;
  DraftSession* const session_;
  LoopTimers& timers_;
  const concurrency::Clock& clock_;

  State state_;
  PlainCause down_cause_ = PlainCause::kDraftLost;  // in kDown
  bool waiting_ = false;
  bool late_ = false;
  double patience_ = 1;         // share of the wait that is granted
  absl::Duration deadline_;     // of the waiting round
  uint32_t wanted_tokens_ = 0;  // by the waiting round
  absl::Duration asked_at_;     // the last Open or Advance
  absl::Duration allowed_;      // for its answer
  absl::Duration usual_;  // of this draft, from an Advance to its answer; average; zero: unknown
  absl::Duration on_the_way_;  // of an Advance and its answer, beside the draft's own time; average

  uint64_t attempt_ = 0;
  uint64_t advance_round_ = 0;
  uint32_t asked_tokens_ = 0;  // by the unanswered Advance
  uint32_t told_ = 0;          // committed tokens that the draft was told
  DraftLimits limits_;
  std::optional<BlockOutcome> outcome_;
  RetryDelay backoff_;
  uint32_t reconnections_ = 0;
};

}  // namespace tandem::orchestrator
