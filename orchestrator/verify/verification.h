// One request's dealings with its targets: brings one round at a time to a verdict, over as many
// Steps, streams and targets as it takes.
//
//   state        meaning                                  next
//   kIdle        no round                                 any other (Begin)
//   kWaiting     a Step is unanswered, watchdog set       kIdle (verdict); kWaiting (more, need prefix,
//                                                         or the same at another target); the others
//   kBackingOff  the retry alarm is set                   kWaiting (OnRetry); as kWaiting (lost)
//   kInLine      a round waits for a slot (TargetPool)    kWaiting, kNoTarget (OnReady)
//   kNoTarget    a round waits for a target               kWaiting, kInLine (OnReady)
//
// A round that is sent again to a new sequence or target keeps its number; its candidates and q it keeps
// always. A verdict counts only in kWaiting, for the Step that was sent last, from the stream it was
// sent on (no two streams share an incarnation, of whichever targets): so one that was read is applied,
// once, and a late or doubled one is nothing.
//
// When a target fails a round (stream gone, fault status, silence, no slot) the committed prefix goes to
// another one at once, if there is one of the same model; else to the same again, after a back-off. The
// second failure in a row backs off wherever it goes.
//
// Trouble begins when there is no verdict through the targets' fault and ends with the next good one.
// When it lasts longer than LoopOptions::target_patience the request fails. To have no slot is no
// trouble: it is waited for until the request's deadline, or for LoopOptions::slot_patience.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "orchestrator/peers/retry_delay.h"
#include "orchestrator/request/committed_tokens.h"
#include "orchestrator/request/loop_options.h"
#include "orchestrator/request/loop_timers.h"
#include "orchestrator/request/request.h"
#include "orchestrator/request/round_observer.h"
#include "orchestrator/verify/prompt_logprobs.h"
#include "orchestrator/verify/slot_wait.h"
#include "orchestrator/verify/step_watchdog.h"
#include "orchestrator/verify/verify_session.h"

namespace tandem::orchestrator {

// How a round's verification ended.
struct Verified {
  enum class Kind : uint8_t {
    kVerdict,       // `reply` is OK; its entries are not validated
    kBlockRefused,  // the target takes no such candidates: the same round is to go on without them
    kFailed,        // `status` ends the request
  };
  Kind kind = Kind::kVerdict;
  VerifyReply reply;
  absl::Status status;
};

// Not thread-safe: one request's strand. What returns a value ends the round's verification by it.
class Verification {
 public:
  // All references outlive this.
  Verification(const GenerationRequest& request, const LoopOptions& options,
               const CommittedTokens& committed, VerifySession& session, LoopTimers& timers,
               const concurrency::Clock& clock, RoundObserver& observer);

  // Verifies `block` after the committed tokens. Its verdict comes through an event; a value at once is
  // a failure.
  std::optional<Verified> Begin(CandidateBlock block);
  // After a verdict: it was good, or it was broken and the same round is to run again, from the
  // start.
  void Accepted();
  std::optional<Verified> Repeat(absl::string_view fault);

  // Of prompt tokens, those that came since the last call; to be asked after each verdict.
  std::optional<PromptLogprobs> TakePromptLogprobs() { return prompt_logprobs_.Collected(); }

  // Frees the target's sequence, between rounds or for good. The next round begins a new one.
  void Close();

  std::optional<Verified> OnVerdict(uint64_t incarnation, VerifyReply reply);
  std::optional<Verified> OnReady();
  std::optional<Verified> OnLost(uint64_t incarnation, const std::string& reason);
  std::optional<Verified> OnWatchdog();
  std::optional<Verified> OnRetry();
  Verified OnPatience() const;
  // The request's deadline has come: what to tell the client.
  absl::Status DeadlineStatus() const;

  // Of the target that was used last; 0 before the first one.
  uint32_t vocabulary_size() const { return vocabulary_size_; }
  uint32_t max_draft_tokens() const { return max_draft_tokens_; }
  // What a round takes at the present target, queueing included; zero while nothing is known.
  absl::Duration RoundTime() const;
  uint32_t replays() const { return replays_; }
  // Where the verification's time went since the last call: slot, network, queue and device.
  RoundStages TakeSpent() { return std::exchange(spent_, {}); }
  // Time spent waiting for a free slot, so far.
  absl::Duration slot_time() const { return slot_wait_.total(clock_.Now()); }
  // The block of the round that is being verified.
  const CandidateBlock& block() const { return block_; }

 private:
  enum class State : uint8_t { kIdle, kWaiting, kBackingOff, kInLine, kNoTarget };

  // Finding a target (verification_target.cc).
  std::optional<Verified> Look();
  std::optional<Verified> Take(TargetInfo target);
  std::optional<Verified> WaitInLine();
  std::optional<Verified> StartOver(absl::string_view fault, LeaveCause cause);
  void LeaveTarget(LeaveCause cause, absl::Duration retry_after);
  void BackOff(absl::Duration delay);
  void TroubleBegins(absl::string_view reason);
  void TroubleEnds();
  Verified NoSlotInTime() const;

  // A Step and its answer (verification.cc).
  void Send();
  std::optional<Verified> NeedPrefix(uint32_t held, const std::string& message);
  std::optional<Verified> NoSlot(const VerifyReply& reply);
  std::optional<Verified> Invalid(const VerifyReply& reply);
  void StopWaiting(bool answered);
  absl::Duration WatchdogTime() const;
  uint32_t MaxStepTokens() const;
  uint32_t Pieces(uint32_t tokens) const;
  void CountVain(absl::Duration now);
  void CountAnswer(absl::Duration now, const VerifyReply& reply);
  static Verified Fail(absl::Status status);

  const GenerationRequest& request_;
  const LoopOptions& options_;
  const CommittedTokens& committed_;
  VerifySession& session_;
  LoopTimers& timers_;
  const concurrency::Clock& clock_;
  RoundObserver& observer_;

  State state_ = State::kIdle;
  std::optional<TargetInfo> target_;  // that the session is at
  std::string model_id_;              // of the first target; the text goes on with no other
  std::string numerics_id_;           // of the last one
  uint32_t vocabulary_size_ = 0;
  uint32_t max_draft_tokens_ = 0;

  PromptLogprobsIntake prompt_logprobs_;
  CandidateBlock block_;  // of the round
  uint64_t round_ = 0;    // its number
  uint32_t held_ = 0;     // committed tokens that the target vouched for, or was sent and answered
  bool began_ = false;    // a target was ever sent the prefix: sending it again is a replay
  bool asked_more_ = false;  // the round's target asked for prefix that it should hold, once

  // The Step that is unanswered.
  uint64_t sent_round_ = 0;
  uint32_t sent_keep_ = 0;
  uint32_t sent_end_ = 0;
  uint32_t sent_rows_ = 0;
  bool sent_replay_ = false;
  bool sent_prompt_logprobs_ = false;  // they were asked for
  StepWatchdog watchdog_;

  RoundStages spent_;  // up to counted_until_
  absl::Duration counted_until_;

  std::string trouble_;         // empty: none
  uint32_t furthest_ = 0;       // of a long prefix, the most that a target took since it began
  uint32_t faults_ = 0;         // of targets, in a row, with no good verdict between
  uint64_t failed_stream_ = 0;  // where the last one was
  SlotWait slot_wait_;
  RetryDelay backoff_;
  uint32_t replays_ = 0;
};

}  // namespace tandem::orchestrator
