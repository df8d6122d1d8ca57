// One request's link to its draft. It opens a sequence there. When the draft is lost, it opens the
// sequence at another draft or again after a back-off, and it gives up when no draft fits. It knows
// what the draft was told. Drafting (drafting.h) decides what to ask for and what a block is worth.
//
//   state     meaning                                     next
//   kOff      none is wanted, or none is configured       -
//   kOpening  Open is under way                           kReady (OnOpened); those below
//   kReady    open, nothing asked                         kAsked (Ask); those below
//   kAsked    an Advance is unanswered                    kReady (OnAnswer); those below
//   kOpening  the draft is lost, another one is there     as above
//   kDown     all are lost; the reopening alarm is set    kOpening (OnReopen)
//   kRefused  no draft fits                               -
//   kClosed   not wanted at the moment                    kOpening (Open)
//
// A draft is silent if it owes an answer for longer than LoopOptions::draft_silence and eight of
// its usual times; a long prefix gives it more time. A silent draft counts as lost, and another one
// takes over.
//
// A reopening waits for a back-off with jitter. Each request and each sample has its own jitter,
// whatever the seed of its text is. Otherwise all that lost a draft together would come back
// together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/concurrency/clock.h"
#include "orchestrator/draft/draft_session.h"
#include "orchestrator/peers/retry_delay.h"
#include "orchestrator/request/committed_tokens.h"
#include "orchestrator/request/loop_options.h"
#include "orchestrator/request/loop_timers.h"
#include "orchestrator/request/request.h"
#include "orchestrator/request/round_observer.h"

namespace tandem::orchestrator {

// Not thread-safe: used on the request's strand.
class DraftLink {
 public:
  enum class State : uint8_t { kOff, kOpening, kReady, kAsked, kDown, kRefused, kClosed };

  // A null `session` means that no draft is configured. `committed` and all other references
  // outlive this object.
  DraftLink(const SampleRequest& request, const LoopOptions& options,
            const CommittedTokens& committed, DraftSession* session, LoopTimers& timers,
            const concurrency::Clock& clock, RoundObserver& observer);

  // From now on the draft drafts with this drafter of it; empty: with its default one. Where that
  // is another one, what was open is closed, and the next Open begins a sequence with the text so
  // far.
  void Use(const std::string& drafter);
  void Open();  // does nothing in kOff and kRefused
  void EnsureOpen() {
    if (state_ == State::kClosed) Open();
  }
  void Close();  // frees everything at the draft; events have no effect until Open

  State state() const { return state_; }
  // Says why no draft is open or being opened. Absent if one is.
  std::optional<PlainCause> absent() const;
  // The number of the attempt. It rises with every Open.
  base::DraftAttempt attempt() const { return attempt_; }
  // The limits of the draft that was opened last; none was before `was_opened`.
  const DraftLimits& limits() const { return limits_; }
  bool was_opened() const { return was_opened_; }
  // The round of the attempt's last Advance; 0 if there was none.
  uint64_t round() const { return round_; }
  // How often a draft was opened after a loss, another one or the same.
  uint32_t reconnections() const { return reconnections_; }

  // What is asked for after the committed tokens.
  struct Wanted {
    uint32_t max_draft_tokens = 1;  // on one path; at least 1
    uint32_t max_nodes = 0;         // of a tree; 0: a chain
    double min_confidence = 0;      // draft.proto, Shape
    uint32_t max_outcomes = 0;      // that the draft is to prepare blocks for
  };

  // Call in kReady. Sends an Advance for a block to be drafted within `wanted_within`. `wait` is
  // how long the round waits for it. What the draft does not offer is not asked for. Returns false
  // if nothing was sent, because the tokens that the draft lacks do not fit into one message.
  bool Ask(const Wanted& wanted, absl::Duration wanted_within, absl::Duration wait);
  // Call in kReady. In other states it does nothing, because nobody needs to know.
  void Submitted(const CandidateTree& block);
  // A block that it has prepared is the next round's. So it knows the committed tokens, once
  // Submitted tells it.
  void TookPrepared();
  // Notes how a block of this draft was decided. The next Advance carries it.
  void Decided(const BlockOutcome& outcome);
  // Notes that the draft holds at most the first `tokens` tokens that it was told.
  void HoldsOnly(uint32_t tokens) { told_ = std::min(told_, tokens); }

  // Gives the draft up and opens another one, now or after a back-off of at least `at_least`.
  // `cause` is the cause of the plain rounds until then.
  void GiveUp(DraftLoss loss, PlainCause cause, absl::Duration at_least = absl::ZeroDuration());
  void GiveUpIfSilent();

  // Returns true if the draft is ready now.
  bool OnOpened(base::DraftAttempt attempt, const DraftLimits& limits);
  // An answer to the Advance of `round` came. If it was waited for, the link is ready again, and
  // the result is how long the answer took. Otherwise the result is absent and the answer is
  // ignored.
  std::optional<absl::Duration> OnAnswer(base::DraftAttempt attempt, uint64_t round);
  // Returns the cause for which the waiting round goes on without a block. Absent if nothing was
  // lost that was still in use.
  std::optional<PlainCause> OnLost(base::DraftAttempt attempt, DraftLoss loss);
  void OnReopen();

 private:
  DraftOpen MakeOpen() const;
  PrefixDelta PrefixFrom(uint32_t keep) const;

  const SampleRequest request_;
  const LoopOptions& options_;
  const CommittedTokens& committed_;
  DraftSession* const session_;
  LoopTimers& timers_;
  const concurrency::Clock& clock_;
  RoundObserver& observer_;

  std::string drafter_;
  State state_;
  PlainCause down_cause_ = PlainCause::kDraftLost;  // in kDown
  concurrency::Instant asked_at_;                   // the last Open or Advance
  absl::Duration allowed_;                          // for its answer
  RetryDelay backoff_;
  uint32_t reconnections_ = 0;
  bool switched_ = false;  // the next Open is not a reconnection

  // State of the attempt.
  base::DraftAttempt attempt_{};
  DraftLimits limits_;
  bool was_opened_ = false;
  uint64_t round_ = 0;
  uint32_t told_ = 0;     // committed tokens that the draft was told
  absl::Duration usual_;  // from an Advance to its answer; average; zero: unknown
  std::optional<BlockOutcome> outcome_;
};

}  // namespace tandem::orchestrator
