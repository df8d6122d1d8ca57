// Chooses the target for a request's Steps, and when to send them: to this target, another one, the
// same again, or none yet.
//
//   state        meaning                                  next
//   kNone        at no target                             any other (Seek)
//   kThere       at target(): Steps may be sent           kNone (it is left)
//   kBackingOff  at target(), the retry alarm is set      kThere (OnRetry); kNone (it is left)
//   kInLine      waits for a slot (TargetPool)            any other (Seek); failure (OnRetry)
//   kNoTarget    waits for a target                       any other (Seek)
//
// A target fails a round if its stream is gone, it answers with a fault status, it is silent, or it
// has no slot. Then the committed prefix goes at once to another target of the same model, if there
// is one; else to the same target again, after a back-off. After the second failure in a row there
// is a back-off before any target.
//
// Trouble begins when a verdict is missing because of the targets, and ends with the next good
// verdict. If it lasts longer than LoopOptions::target_patience, the request fails. A missing slot
// is no trouble: the request waits for one until its deadline, or for LoopOptions::slot_patience.
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

// Not thread-safe: used on the request's strand. Its alarms are kRetry and kTargetPatience. If a
// function returns an error, the request ends.
class TargetChoice {
 public:
  // All references outlive this object.
  TargetChoice(const SampleRequest& request, const LoopOptions& options, VerifySession& session,
               LoopTimers& timers, const concurrency::Clock& clock, RoundObserver& observer);

  enum class Found : uint8_t {
    kTarget,  // target(): a Step may go there now
    kLater,   // wait for OnVerifyReady, then Seek; or for kRetry, then OnRetry
  };
  // Call at no target, or when what it waits for may be there.
  absl::StatusOr<Found> Seek();
  absl::StatusOr<Found> OnRetry();
  // Whether OnVerifyReady concerns it, because it waits for a target or for a slot.
  bool waits() const { return state_ == State::kInLine || state_ == State::kNoTarget; }

  // The present target; absent if there is none. It does not move until the target is left.
  const std::optional<TargetInfo>& target() const { return target_; }
  // The vocabulary size of the target used last; 0 before the first one.
  uint32_t vocabulary_size() const { return vocabulary_size_; }
  uint32_t max_draft_tokens() const { return max_draft_tokens_; }
  uint32_t max_nodes() const { return max_nodes_; }

  // ---- the target is left, and nothing is sought yet ----
  // The target failed by its own fault. This counts as one fault in a row and begins trouble.
  void LeaveForFault(absl::string_view fault, LeaveCause cause);
  // The target's stream is gone.
  void LeaveLost();
  // The target had no slot or no room for the Step that was sent at `sent`. `retry_after` is what
  // it asked for, `reason` what it said.
  void LeaveForSlot(concurrency::Instant sent, absl::Duration retry_after, std::string reason);
  // Leaves the target, for good or for a while. It waits for nothing any more, and trouble is
  // forgotten.
  void Close();

  // ---- how it goes there ----
  void Trouble(absl::string_view reason);  // trouble begins, or goes on for another reason
  // A verdict was good.
  void Well();
  // The target took the first `tokens` tokens of a long prefix. In trouble, progress gives more
  // patience.
  void GotOn(uint32_t tokens);
  // The Step that was sent at `sent` had a slot.
  void HadSlot(concurrency::Instant sent) { slot_wait_.End(sent); }

  bool troubled() const { return !trouble_.empty(); }
  const std::string& trouble() const { return trouble_; }  // the last reason; empty: no trouble
  const SlotWait& slot_wait() const { return slot_wait_; }
  // For people: what it waits for in line, and what the last target said of it, if any did.
  std::string AwaitedRoom() const;
  std::string LastReason() const;

 private:
  enum class State : uint8_t { kNone, kThere, kBackingOff, kInLine, kNoTarget };

  absl::StatusOr<Found> GoTo(TargetInfo target);
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
  std::string model_id_;     // the first target's model; the text uses no other
  std::string numerics_id_;  // the last target's numerics
  uint32_t vocabulary_size_ = 0;
  uint32_t max_draft_tokens_ = 0;
  uint32_t max_nodes_ = 0;

  std::string trouble_;                // empty: none
  uint32_t furthest_ = 0;              // most tokens of a long prefix taken since trouble began
  uint32_t faults_ = 0;                // faults of targets in a row, without a good verdict between
  base::Incarnation failed_stream_{};  // the stream of the last fault
  SlotWait slot_wait_;
  std::string no_slot_;  // the last target's reason
  RetryDelay backoff_;
};

}  // namespace tandem::orchestrator
