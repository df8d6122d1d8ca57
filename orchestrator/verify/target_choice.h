// Which target a request's Steps go to, and when: this one, another one, the same again, or none
// yet.
//
//   state        meaning                                  next
//   kNone        at no target                             any other (Seek)
//   kThere       at target(): Steps may be sent           kNone (it is left)
//   kBackingOff  at target(), the retry alarm is set      kThere (OnRetry); kNone (it is left)
//   kInLine      waits for a slot (TargetPool)            any other (Seek); failure (OnRetry)
//   kNoTarget    waits for a target                       any other (Seek)
//
// When a target fails a round (stream gone, fault status, silence, no slot) the committed prefix
// goes to another one at once, if there is one of the same model; else to the same again, after a
// back-off. The second failure in a row backs off wherever it goes.
//
// Trouble begins when there is no verdict through the targets' fault and ends with the next good
// one. When it lasts longer than LoopOptions::target_patience the request fails. To have no slot is
// no trouble: it is waited for until the request's deadline, or for LoopOptions::slot_patience.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/concurrency/clock.h"
#include "orchestrator/peers/retry_delay.h"
#include "orchestrator/request/loop_options.h"
#include "orchestrator/request/loop_timers.h"
#include "orchestrator/request/request.h"
#include "orchestrator/request/round_observer.h"
#include "orchestrator/verify/slot_wait.h"
#include "orchestrator/verify/target_info.h"
#include "orchestrator/verify/verify_session.h"

namespace tandem::orchestrator {

// Not thread-safe: one request's strand. Its alarms are kRetry and kTargetPatience. An error of a
// method ends the request.
class TargetChoice {
 public:
  // All references outlive this.
  TargetChoice(const SampleRequest& request, const LoopOptions& options, VerifySession& session,
               LoopTimers& timers, const concurrency::Clock& clock, RoundObserver& observer);

  enum class Found : uint8_t {
    kTarget,  // target(): a Step may go there now
    kLater,   // an event goes on: OnVerifyReady (then Seek), or kRetry (then OnRetry)
  };
  // At no target, or with what was waited for maybe there.
  absl::StatusOr<Found> Seek();
  absl::StatusOr<Found> OnRetry();
  // OnVerifyReady concerns it: it waits for a target, or for a slot.
  bool waits() const { return state_ == State::kInLine || state_ == State::kNoTarget; }

  // Absent: it is at none. Stays where it is until it is left.
  const std::optional<TargetInfo>& target() const { return target_; }
  // Of the target that was used last; 0 before the first one.
  uint32_t vocabulary_size() const { return vocabulary_size_; }
  uint32_t max_draft_tokens() const { return max_draft_tokens_; }

  // ---- the target is left, and nothing is sought yet ----
  // For a fault of its own, which counts as one in a row; trouble.
  void LeaveForFault(absl::string_view fault, LeaveCause cause);
  // Its stream is gone.
  void LeaveLost();
  // It had no slot for the Step that was sent at `sent`. `retry_after`: what it asked for.
  void LeaveForSlot(concurrency::Instant sent, absl::Duration retry_after);
  // For good, or for a while: nothing is waited for any more, trouble is forgotten.
  void Close();

  // ---- how it goes there ----
  void Trouble(absl::string_view reason);  // it begins, or goes on for another reason
  // A verdict was good.
  void Well();
  // Of a long prefix, so many tokens were taken: in trouble, that is worth more patience.
  void GotOn(uint32_t tokens);
  // A Step that was sent at `sent` had a slot.
  void HadSlot(concurrency::Instant sent) { slot_wait_.End(sent); }

  bool troubled() const { return !trouble_.empty(); }
  const std::string& trouble() const { return trouble_; }  // the last reason; empty: there is none
  const SlotWait& slot_wait() const { return slot_wait_; }

 private:
  enum class State : uint8_t { kNone, kThere, kBackingOff, kInLine, kNoTarget };

  absl::StatusOr<Found> Take(TargetInfo target);
  absl::StatusOr<Found> WaitInLine();
  void Leave(LeaveCause cause, absl::Duration retry_after);
  absl::Status NoSlotInTime() const;

  const SampleRequest request_;
  const LoopOptions& options_;
  VerifySession& session_;
  LoopTimers& timers_;
  const concurrency::Clock& clock_;
  RoundObserver& observer_;

  State state_ = State::kNone;
  std::optional<TargetInfo> target_;
  std::string model_id_;     // of the first target; the text goes on with no other
  std::string numerics_id_;  // of the last one
  uint32_t vocabulary_size_ = 0;
  uint32_t max_draft_tokens_ = 0;

  std::string trouble_;    // empty: none
  uint32_t furthest_ = 0;  // of a long prefix, the most that a target took since it began
  uint32_t faults_ = 0;    // of targets, in a row, with no good verdict between
  base::Incarnation failed_stream_{};  // where the last one was
  SlotWait slot_wait_;
  RetryDelay backoff_;
};

}  // namespace tandem::orchestrator
