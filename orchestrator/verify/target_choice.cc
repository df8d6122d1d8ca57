#include "orchestrator/verify/target_choice.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "orchestrator/request/internal_reason.h"

namespace tandem::orchestrator {

TargetChoice::TargetChoice(const SampleRequest& request, const LoopOptions& options,
                           VerifySession& session, LoopTimers& timers,
                           const concurrency::Clock& clock, RoundObserver& observer)
    : request_(request),
      options_(options),
      session_(session),
      timers_(timers),
      clock_(clock),
      observer_(observer),
      backoff_(options.backoff_min, options.backoff_max,
               RetrySeed(request->retry_seed, request.sample_index())) {}

// ---- finding a target ----

absl::StatusOr<TargetChoice::Found> TargetChoice::Seek() {
  SeekResult result = session_.Seek();
  switch (result.kind) {
    case SeekResult::Kind::kTarget:
      return GoTo(std::move(result.target));
    case SeekResult::Kind::kNoSlot:
      return WaitInLine();
    case SeekResult::Kind::kNoTarget:
      state_ = State::kNoTarget;
      slot_wait_.End(clock_.Now());
      timers_.Cancel(LoopTimer::kRetry);
      Trouble(result.reason);
      return Found::kLater;
    case SeekResult::Kind::kUnfit:
      return WithInternalReason(
          absl::FailedPreconditionError(
              absl::StrCat("the targets' model changed during the request: no target has ",
                           model_id_.empty() ? "the model that it was checked against" : model_id_,
                           " any more")),
          result.reason);
  }
  return Found::kLater;
}

absl::StatusOr<TargetChoice::Found> TargetChoice::GoTo(TargetInfo target) {
  if (model_id_.empty()) model_id_ = target.model_id;
  if (target.model_id != model_id_) {
    return absl::FailedPreconditionError(
        absl::StrCat("the target's model changed during the request: it began with ", model_id_,
                     ", now there is ", target.model_id));
  }
  if (!numerics_id_.empty() && target.numerics_id != numerics_id_) {
    // Near ties may be decided otherwise from here on.
    TANDEM_LOG(kWarning) << base::LogFields("numerics_changed")
                                .Add("id", request_->id)
                                .Add("peer", target.name)
                                .Add("numerics_id", target.numerics_id)
                                .Add("before", numerics_id_);
  }
  numerics_id_ = target.numerics_id;
  vocabulary_size_ = target.vocabulary_size;
  max_draft_tokens_ = target.max_draft_tokens;
  max_nodes_ = target.max_nodes;
  timers_.Cancel(LoopTimer::kRetry);
  const bool at_once = faults_ == 0 || (faults_ == 1 && target.incarnation != failed_stream_);
  target_ = std::move(target);
  if (at_once) {
    state_ = State::kThere;
    return Found::kTarget;
  }
  state_ = State::kBackingOff;
  timers_.Set(LoopTimer::kRetry, backoff_.Next());
  return Found::kLater;
}

absl::StatusOr<TargetChoice::Found> TargetChoice::WaitInLine() {
  slot_wait_.Begin(clock_.Now());
  // A request with a deadline waits until then.
  if (request_->deadline == concurrency::Instant::InfiniteFuture()) {
    const absl::Duration left = options_.slot_patience - slot_wait_.waited(clock_.Now());
    if (left <= absl::ZeroDuration()) return NoSlotInTime();
    timers_.Set(LoopTimer::kRetry, left);
  }
  Well();
  state_ = State::kInLine;
  return Found::kLater;
}

absl::StatusOr<TargetChoice::Found> TargetChoice::OnRetry() {
  if (state_ == State::kInLine) return NoSlotInTime();
  if (state_ != State::kBackingOff) return Found::kLater;
  state_ = State::kThere;
  return Found::kTarget;
}

absl::Status TargetChoice::NoSlotInTime() const {
  return absl::ResourceExhaustedError(
      absl::StrCat("no target had ", AwaitedRoom(), " for ",
                   absl::FormatDuration(slot_wait_.waited(clock_.Now())), LastReason()));
}

std::string TargetChoice::AwaitedRoom() const {
  return absl::StrCat("a free slot with room for ", request_->max_length(),
                      " tokens (prompt and max_tokens)");
}

std::string TargetChoice::LastReason() const {
  return no_slot_.empty() ? "" : absl::StrCat("; the last one said: ", no_slot_);
}

// ---- leaving it ----

void TargetChoice::LeaveForFault(absl::string_view fault, LeaveCause cause) {
  ++faults_;
  failed_stream_ = target_.has_value() ? target_->incarnation : base::Incarnation();
  Leave(cause, absl::ZeroDuration());
  Trouble(fault);
}

void TargetChoice::LeaveLost() {
  if (state_ == State::kBackingOff) timers_.Cancel(LoopTimer::kRetry);
  Leave(LeaveCause::kLost, absl::ZeroDuration());
}

void TargetChoice::LeaveForSlot(concurrency::Instant sent, absl::Duration retry_after,
                                std::string reason) {
  slot_wait_.Begin(sent);
  no_slot_ = std::move(reason);
  Leave(LeaveCause::kNoSlot, retry_after);
}

void TargetChoice::Leave(LeaveCause cause, absl::Duration retry_after) {
  state_ = State::kNone;
  observer_.OnTargetLeft(clock_.Now(), cause);
  session_.Leave(cause, retry_after);
  target_.reset();
}

void TargetChoice::Close() {
  timers_.Cancel(LoopTimer::kRetry);
  timers_.Cancel(LoopTimer::kTargetPatience);
  slot_wait_.End(clock_.Now());
  trouble_.clear();
  faults_ = 0;
  state_ = State::kNone;
  session_.Close();
  target_.reset();
}

// ---- how it goes there ----

void TargetChoice::Trouble(absl::string_view reason) {
  if (trouble_.empty()) {
    furthest_ = 0;
    timers_.Set(LoopTimer::kTargetPatience, options_.target_patience);
  }
  trouble_ = reason.empty() ? "the target gave no reason" : std::string(reason);
}

void TargetChoice::Well() {
  faults_ = 0;
  if (trouble_.empty()) return;
  trouble_.clear();
  backoff_.Reset();
  timers_.Cancel(LoopTimer::kTargetPatience);
}

void TargetChoice::GotOn(uint32_t tokens) {
  if (trouble_.empty() || tokens <= furthest_) return;
  furthest_ = tokens;
  timers_.Set(LoopTimer::kTargetPatience, options_.target_patience);
}

}  // namespace tandem::orchestrator
