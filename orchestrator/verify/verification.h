// One request's dealings with its target: brings one round at a time to a verdict, over as many
// Steps, streams and targets as it takes.
//
//   state        meaning                                  next
//   kIdle        no round                                 kWaiting, kNoStream (Begin)
//   kWaiting     a Step is unanswered, watchdog set       kIdle (verdict); kWaiting (more, need
//   prefix);
//                                                         kBackingOff; kNoStream (lost, watchdog)
//   kBackingOff  the retry alarm is set                   kWaiting (OnRetry); kNoStream (lost)
//   kNoStream    a round waits for a stream               kWaiting (OnReady)
//
// A round that is sent again to a new sequence or stream keeps its number; its candidates and q it keeps
// always. A verdict counts only in
// kWaiting, for the Step that was sent last, from the stream it was sent on: so one that was read
// is applied, once, and a late or doubled one is nothing.
//
// Trouble begins when the target gives no verdict through its own fault (stream gone, fault status,
// silence) and ends with the next verdict. When it lasts longer than LoopOptions::target_patience
// the request fails. A target without a slot is no trouble: it answers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "orchestrator/generate/committed_tokens.h"
#include "orchestrator/generate/loop_timers.h"
#include "orchestrator/generate/request.h"
#include "orchestrator/generate/round_observer.h"
#include "orchestrator/options.h"
#include "orchestrator/peers/retry_delay.h"
#include "orchestrator/verify/target_pace.h"
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

// Not thread-safe: one request's strand. An event returns a value when it ends the round's
// verification.
class Verification {
 public:
  // All references outlive this.
  Verification(const GenerationRequest& request, const LoopOptions& options,
               const CommittedTokens& committed, VerifySession& session, LoopTimers& timers,
               const concurrency::Clock& clock, TargetPace& pace, RoundObserver& observer);

  // Verifies `block` after the committed tokens. Its verdict comes through an event.
  void Begin(CandidateBlock block);
  // After a verdict: it was good, or it was broken and the same round is to run again, from the
  // start.
  void Accepted();
  void Repeat(absl::string_view fault);

  // Frees the target's sequence, between rounds or for good. The next round begins a new one.
  void Close();

  std::optional<Verified> OnVerdict(uint64_t incarnation, VerifyReply reply);
  std::optional<Verified> OnReady(const TargetInfo& target);
  void OnLost(uint64_t incarnation, const std::string& reason);
  void OnWatchdog();
  void OnRetry();
  Verified OnPatience() const;
  // The request's deadline has come: what to tell the client.
  absl::Status DeadlineStatus() const;

  // Of the target that was connected last; 0 before the first one.
  uint32_t vocabulary_size() const { return vocabulary_size_; }
  uint32_t most_candidates() const { return most_candidates_; }
  uint32_t replays() const { return replays_; }
  // The block of the round that is being verified.
  const CandidateBlock& block() const { return block_; }

 private:
  enum class State : uint8_t { kIdle, kWaiting, kBackingOff, kNoStream };

  void Send();
  std::optional<Verified> NeedPrefix(uint32_t held, const std::string& message);
  std::optional<Verified> NoSlot(const VerifyReply& reply);
  std::optional<Verified> Invalid(const VerifyReply& reply);
  void StartOver(absl::string_view fault);
  void BackOff(absl::Duration delay);
  void TroubleBegins(absl::string_view reason);
  void TroubleEnds();
  void StopWaiting(bool answered);
  absl::Duration WatchdogTime(uint32_t rows) const;
  uint32_t Pieces(uint32_t tokens) const;
  Verified Fail(absl::Status status) const;

  const GenerationRequest& request_;
  const LoopOptions& options_;
  const CommittedTokens& committed_;
  VerifySession& session_;
  LoopTimers& timers_;
  const concurrency::Clock& clock_;
  TargetPace& pace_;
  RoundObserver& observer_;

  State state_ = State::kIdle;
  std::optional<TargetInfo> target_;  // the connected one
  std::string model_id_;              // of the first target; the text goes on with no other
  uint32_t vocabulary_size_ = 0;
  uint32_t most_candidates_ = 0;

  CandidateBlock block_;  // of the round
  uint64_t round_ = 0;    // its number
  uint32_t held_ = 0;     // committed tokens that the target vouched for, or was sent and answered
  bool began_ = false;    // the target was ever sent the prefix: sending it again is a replay

  // The Step that is unanswered.
  uint64_t sent_round_ = 0;
  uint32_t sent_keep_ = 0;
  uint32_t sent_end_ = 0;
  uint32_t sent_rows_ = 0;
  bool sent_replay_ = false;
  absl::Duration sent_at_;
  uint32_t watchdog_extensions_ = 0;
  uint32_t watchdog_strikes_ = 0;  // in a row, with no verdict between

  std::string trouble_;  // empty: none
  std::optional<absl::Duration> without_slot_since_;
  RetryDelay backoff_;
  uint32_t replays_ = 0;
};

}  // namespace tandem::orchestrator
