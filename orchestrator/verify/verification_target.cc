// Which target a round goes to, and when: another one, the same again, or none yet.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "orchestrator/verify/verification.h"

namespace tandem::orchestrator {

std::optional<Verified> Verification::Look() {
  Seat seat = session_.Seek();
  switch (seat.kind) {
    case Seat::Kind::kTarget:
      return Take(std::move(seat.target));
    case Seat::Kind::kNoSlot:
      return WaitInLine();
    case Seat::Kind::kNoTarget:
      state_ = State::kNoTarget;
      slot_wait_.End(clock_.Now());
      timers_.Cancel(LoopTimer::kRetry);
      TroubleBegins(seat.reason);
      return std::nullopt;
    case Seat::Kind::kUnfit:
      return Fail(absl::FailedPreconditionError(
          absl::StrCat("the targets' model changed during the request: no target has ",
                       model_id_.empty() ? "the model that it was checked against" : model_id_,
                       " any more; ", seat.reason)));
  }
  return std::nullopt;
}

std::optional<Verified> Verification::Take(TargetInfo target) {
  if (model_id_.empty()) model_id_ = target.model_id;
  if (target.model_id != model_id_) {
    return Fail(absl::FailedPreconditionError(
        absl::StrCat("the target's model changed during the request: it began with ", model_id_,
                     ", now there is ", target.model_id)));
  }
  if (!numerics_id_.empty() && target.numerics_id != numerics_id_) {
    // Near ties may be decided otherwise from here on.
    TANDEM_LOG(kWarning) << base::LogFields("numerics_changed")
                                .Add("id", request_.id)
                                .Add("peer", target.name)
                                .Add("numerics_id", target.numerics_id)
                                .Add("before", numerics_id_);
  }
  numerics_id_ = target.numerics_id;
  vocabulary_size_ = target.vocabulary_size;
  max_draft_tokens_ = target.max_draft_tokens;
  timers_.Cancel(LoopTimer::kRetry);
  const bool at_once = faults_ == 0 || (faults_ == 1 && target.incarnation != failed_stream_);
  target_ = std::move(target);
  if (at_once) {
    CountVain(clock_.Now());
    Send();
  } else {
    BackOff(backoff_.Next());
  }
  return std::nullopt;
}

std::optional<Verified> Verification::WaitInLine() {
  slot_wait_.Begin(clock_.Now());
  // A request with a deadline waits until then.
  if (request_.deadline == absl::InfiniteDuration()) {
    const absl::Duration left = options_.slot_patience - slot_wait_.waited(clock_.Now());
    if (left <= absl::ZeroDuration()) return NoSlotInTime();
    timers_.Set(LoopTimer::kRetry, left);
  }
  TroubleEnds();
  state_ = State::kInLine;
  return std::nullopt;
}

std::optional<Verified> Verification::OnReady() {
  if (state_ != State::kInLine && state_ != State::kNoTarget) return std::nullopt;
  return Look();
}

std::optional<Verified> Verification::OnLost(uint64_t incarnation, const std::string& reason) {
  if (!target_.has_value() || target_->incarnation != incarnation) return std::nullopt;
  const bool in_round = state_ != State::kIdle;
  LeaveTarget(LeaveCause::kLost, absl::ZeroDuration());
  if (!in_round) return std::nullopt;
  timers_.Cancel(LoopTimer::kRetry);
  TroubleBegins(reason);
  observer_.OnReplay(clock_.Now(), reason);
  return Look();
}

std::optional<Verified> Verification::OnRetry() {
  if (state_ == State::kInLine) return NoSlotInTime();
  if (state_ != State::kBackingOff) return std::nullopt;
  CountVain(clock_.Now());
  Send();
  return std::nullopt;
}

Verified Verification::OnPatience() const {
  return Fail(absl::UnavailableError(absl::StrCat(
      "no target for ", absl::FormatDuration(options_.target_patience), ": ", trouble_)));
}

Verified Verification::NoSlotInTime() const {
  return Fail(absl::ResourceExhaustedError(absl::StrCat(
      "the target had no free slot for ", absl::FormatDuration(slot_wait_.waited(clock_.Now())))));
}

// As a new sequence, elsewhere if possible: no answer to the old one can be taken for the new one's.
std::optional<Verified> Verification::StartOver(absl::string_view fault, LeaveCause cause) {
  ++faults_;
  failed_stream_ = target_.has_value() ? target_->incarnation : 0;
  LeaveTarget(cause, absl::ZeroDuration());
  TroubleBegins(fault);
  observer_.OnReplay(clock_.Now(), fault);
  return Look();
}

void Verification::LeaveTarget(LeaveCause cause, absl::Duration retry_after) {
  StopWaiting(/*answered=*/false);
  state_ = State::kIdle;
  session_.Leave(cause, retry_after);
  target_.reset();
  held_ = 0;
  asked_more_ = false;
}

void Verification::Close() {
  StopWaiting(/*answered=*/false);
  timers_.Cancel(LoopTimer::kRetry);
  timers_.Cancel(LoopTimer::kTargetPatience);
  slot_wait_.End(clock_.Now());
  trouble_.clear();
  faults_ = 0;
  state_ = State::kIdle;
  session_.Close();
  target_.reset();
  held_ = 0;
}

void Verification::BackOff(absl::Duration delay) {
  state_ = State::kBackingOff;
  timers_.Set(LoopTimer::kRetry, delay);
}

void Verification::TroubleBegins(absl::string_view reason) {
  if (trouble_.empty()) {
    furthest_ = 0;
    timers_.Set(LoopTimer::kTargetPatience, options_.target_patience);
  }
  trouble_ = reason.empty() ? "the target gave no reason" : std::string(reason);
}

void Verification::TroubleEnds() {
  faults_ = 0;
  if (trouble_.empty()) return;
  trouble_.clear();
  backoff_.Reset();
  watchdog_.Reset();
  timers_.Cancel(LoopTimer::kTargetPatience);
}

}  // namespace tandem::orchestrator
