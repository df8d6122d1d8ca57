// One request's link to its draft: opens a sequence there, opens it anew at another draft or after
// a back-off when it is lost, gives up where none fits, and knows what the draft was told. What is
// asked for, and what the blocks are worth, is the source's (drafting.h).
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
// A draft that owes an answer for much longer than it usually takes (LoopOptions::draft_silence,
// and eight of its usual times; longer for a long prefix) is silent: it is lost, and another takes
// its place.
//
// A reopening waits for a back-off with jitter. The jitter is another one for each request and each
// of its samples, whatever their seeds are: else all that lost a draft at once would come back at
// once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

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

// Not thread-safe: one request's strand.
class DraftLink {
 public:
  enum class State : uint8_t { kOff, kOpening, kReady, kAsked, kDown, kRefused, kClosed };

  // `session` null: no draft is configured. `committed` and all other references outlive this.
  DraftLink(const SampleRequest& request, const LoopOptions& options,
            const CommittedTokens& committed, DraftSession* session, LoopTimers& timers,
            const concurrency::Clock& clock, RoundObserver& observer);

  void Open();   // unless off or refused
  void Close();  // frees everything at the draft; no event has an effect until Open

  State state() const { return state_; }
  // Why no draft is there, nor on its way; absent: one is.
  std::optional<PlainCause> absent() const;
  // Rises with every Open.
  base::DraftAttempt attempt() const { return attempt_; }
  // Of the draft that was opened last.
  const DraftLimits& limits() const { return limits_; }
  // The last Advance of the attempt; 0: there was none.
  uint64_t round() const { return round_; }
  // How often another draft, or the same again, was opened.
  uint32_t reconnections() const { return reconnections_; }

  // In kReady: sends an Advance for up to `max_draft_tokens` (at least 1) candidates after the
  // committed tokens, drafted within `wanted_within`. `wait`: how long the round waits for it.
  // False: nothing was sent, because the tokens that the draft lacks do not fit into one message.
  bool Ask(uint32_t max_draft_tokens, absl::Duration wanted_within, absl::Duration wait);
  // In kReady; elsewhere nobody needs to hear of it.
  void Submitted(const CandidateTree& block);
  // How a block of this draft was decided; goes with the next Advance.
  void Decided(const BlockOutcome& outcome);
  // The draft holds no more than the first so many of the tokens that it was told.
  void HoldsOnly(uint32_t tokens) { told_ = std::min(told_, tokens); }

  // The draft is of no use: another one is opened, now or after a back-off of at least `at_least`.
  // `cause`: what the rounds until then have for being plain.
  void GiveUp(DraftLoss loss, PlainCause cause, absl::Duration at_least = absl::ZeroDuration());
  void GiveUpIfSilent();

  // True: it is ready now.
  bool OnOpened(base::DraftAttempt attempt, const DraftLimits& limits);
  // Something answers the Advance of `round`. It is what was waited for: ready again, and how long
  // the answer took. Absent: it is not, and counts for nothing.
  std::optional<absl::Duration> OnAnswer(base::DraftAttempt attempt, uint64_t round);
  // Why the round that waits goes on without a block; absent: nothing was lost that was still
  // there.
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

  State state_;
  PlainCause down_cause_ = PlainCause::kDraftLost;  // in kDown
  concurrency::Instant asked_at_;                   // the last Open or Advance
  absl::Duration allowed_;                          // for its answer
  RetryDelay backoff_;
  uint32_t reconnections_ = 0;

  // Of the attempt.
  base::DraftAttempt attempt_{};
  DraftLimits limits_;
  uint64_t round_ = 0;
  uint32_t told_ = 0;     // committed tokens that the draft was told
  absl::Duration usual_;  // from an Advance to its answer; average; zero: unknown
  std::optional<BlockOutcome> outcome_;
};

}  // namespace tandem::orchestrator
