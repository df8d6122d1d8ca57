#include "orchestrator/verify/verification.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/check.h"

namespace tandem::orchestrator {
namespace {

// A stream that brings other verdicts is alive; a Step on it may wait this many times longer.
constexpr uint32_t kMostWatchdogExtensions = 3;
constexpr uint32_t kMostWatchdogDoublings = 6;
constexpr absl::Duration kLeastSlotRetry = absl::Milliseconds(1);
constexpr absl::Duration kMostSlotRetry = absl::Seconds(1);

}  // namespace

Verification::Verification(const GenerationRequest& request, const LoopOptions& options,
                           const CommittedTokens& committed, VerifySession& session,
                           LoopTimers& timers, const concurrency::Clock& clock, TargetPace& pace,
                           RoundObserver& observer)
    : request_(request),
      options_(options),
      committed_(committed),
      session_(session),
      timers_(timers),
      clock_(clock),
      pace_(pace),
      observer_(observer),
      backoff_(options.backoff_least, options.backoff_most, request.seed) {}

void Verification::Begin(CandidateBlock block) {
  TANDEM_CHECK(state_ == State::kIdle);
  block_ = std::move(block);
  // Numbers rise with every Step, and a round keeps its own when it is sent again: so it leaves
  // room below it for the pieces of a whole replay.
  round_ += Pieces(committed_.size());
  if (target_.has_value()) return Send();
  state_ = State::kNoStream;
  TroubleBegins("there is no stream to the target");
}

void Verification::Repeat(absl::string_view fault) {
  TANDEM_CHECK(state_ == State::kIdle);
  StartOver(fault);
}

void Verification::Close() {
  StopWaiting(/*answered=*/false);
  timers_.Cancel(LoopTimer::kRetry);
  timers_.Cancel(LoopTimer::kTargetPatience);
  trouble_.clear();
  state_ = State::kIdle;
  held_ = 0;
  session_.Close();
}

void Verification::Accepted() { TroubleEnds(); }

void Verification::Send() {
  const uint32_t end =
      std::min<uint64_t>(committed_.size(), uint64_t{held_} + options_.most_prefix_tokens);
  absl::Span<const uint32_t> tokens = committed_.all().subspan(held_, end - held_);
  VerifyStep step;
  step.more = end < committed_.size();
  step.round = round_ - (Pieces(committed_.size() - held_) - 1);
  step.prefix = {held_, {tokens.begin(), tokens.end()}, committed_.HashOf(end)};
  if (held_ == 0) {
    step.setup = SequenceSetup{
        request_.sampling,        request_.rule,          request_.seed,    request_.sample_index,
        request_.prompt_tokens(), request_.most_tokens(), request_.priority};
    sent_replay_ = std::exchange(began_, true);
    if (sent_replay_) ++replays_;
  }
  if (!step.more) step.block = block_;
  if (request_.deadline != absl::InfiniteDuration()) {
    step.remaining = std::max(request_.deadline - clock_.Now(), absl::Microseconds(1));
  }
  sent_round_ = step.round;
  sent_keep_ = held_;
  sent_end_ = end;
  sent_rows_ = static_cast<uint32_t>(tokens.size() + step.block.tokens.size());
  sent_at_ = clock_.Now();
  watchdog_extensions_ = 0;
  state_ = State::kWaiting;
  timers_.Set(LoopTimer::kWatchdog, WatchdogTime(sent_rows_));
  pace_.Submitted(sent_rows_);
  observer_.OnSubmitted(step.round);
  session_.Submit(target_->incarnation, std::move(step));
}

std::optional<Verified> Verification::OnVerdict(uint64_t incarnation, VerifyReply reply) {
  using Status = VerifyReply::Status;
  if (state_ != State::kWaiting || incarnation != target_->incarnation ||
      reply.round != sent_round_) {
    return std::nullopt;  // late, or twice
  }
  StopWaiting(reply.status == Status::kOk);
  if (reply.status != Status::kNoSlot) without_slot_since_.reset();
  switch (reply.status) {
    case Status::kOk:
      break;
    case Status::kNeedPrefix:
      return NeedPrefix(reply.held, reply.message);
    case Status::kNoSlot:
      return NoSlot(reply);
    case Status::kInvalid:
      return Invalid(reply);
    case Status::kExpired:
      if (request_.deadline != absl::InfiniteDuration()) {
        return Fail(absl::DeadlineExceededError("the request's deadline passed at the target"));
      }
      StartOver(
          absl::StrCat("the target says that a Step without a deadline expired: ", reply.message));
      return std::nullopt;
    case Status::kStale:
    case Status::kDraining:
    case Status::kClosed:
    case Status::kInternal:
      StartOver(reply.message);
      return std::nullopt;
  }
  held_ = sent_end_;
  if (sent_end_ < committed_.size()) {
    TroubleEnds();
    Send();
    return std::nullopt;
  }
  return Verified{Verified::Kind::kVerdict, std::move(reply), absl::OkStatus()};
}

// A target that wants more than everything, or vouches for more than it was sent, is at fault.
std::optional<Verified> Verification::NeedPrefix(uint32_t held, const std::string& message) {
  if (sent_keep_ == 0) {
    StartOver(absl::StrCat("the target needs more than the whole prefix: ", message));
    return std::nullopt;
  }
  held_ = held < sent_keep_ ? held : 0;
  // The sequence stays, so this is no replay: a new number, and a second answer to the old one is nothing.
  round_ += Pieces(committed_.size() - held_);
  observer_.OnReplay("the target lacks the prefix");
  Send();
  return std::nullopt;
}

std::optional<Verified> Verification::NoSlot(const VerifyReply& reply) {
  TroubleEnds();
  session_.Close();
  held_ = 0;
  if (!without_slot_since_.has_value()) without_slot_since_ = clock_.Now();
  if (request_.deadline == absl::InfiniteDuration() &&
      clock_.Now() - *without_slot_since_ >= options_.slot_patience) {
    return Fail(absl::ResourceExhaustedError(
        absl::StrCat("the target had no free slot for ",
                     absl::FormatDuration(clock_.Now() - *without_slot_since_))));
  }
  // Nothing was taken: the next try counts in place of this one.
  if (sent_keep_ == 0) {
    if (sent_replay_) --replays_;
    began_ = sent_replay_;
  }
  BackOff(std::clamp(reply.retry_after, kLeastSlotRetry, kMostSlotRetry));
  return std::nullopt;
}

// Our own mistake, unless a draft's candidates are what the target does not like: these are not
// worth a request. No verdict was read, so the round may run again under its key.
std::optional<Verified> Verification::Invalid(const VerifyReply& reply) {
  if (!block_.tokens.empty() && sent_end_ == committed_.size()) {
    return Verified{Verified::Kind::kBlockRefused, reply, absl::InternalError(reply.message)};
  }
  return Fail(absl::InternalError(absl::StrCat("the target refused a Step: ", reply.message)));
}

std::optional<Verified> Verification::OnReady(const TargetInfo& target) {
  if (model_id_.empty()) model_id_ = target.model_id;
  if (target.model_id != model_id_) {
    return Fail(absl::FailedPreconditionError(
        absl::StrCat("the target's model changed during the request: it began with ", model_id_,
                     ", now there is ", target.model_id)));
  }
  if (state_ == State::kWaiting || state_ == State::kBackingOff) {
    OnLost(target_->incarnation, "a new stream took its place");
  }
  target_ = target;
  vocabulary_size_ = target.vocabulary_size;
  most_candidates_ = target.most_candidates;
  held_ = 0;
  if (state_ == State::kNoStream) Send();
  return std::nullopt;
}

void Verification::OnLost(uint64_t incarnation, const std::string& reason) {
  if (!target_.has_value() || target_->incarnation != incarnation) return;
  target_.reset();
  held_ = 0;
  if (state_ == State::kIdle || state_ == State::kNoStream) return;
  StopWaiting(/*answered=*/false);
  timers_.Cancel(LoopTimer::kRetry);
  state_ = State::kNoStream;
  TroubleBegins(reason);
  observer_.OnReplay(reason);
}

void Verification::OnWatchdog() {
  if (state_ != State::kWaiting) return;
  const absl::Duration limit = WatchdogTime(sent_rows_);
  if (session_.last_heard() > sent_at_ && watchdog_extensions_ < kMostWatchdogExtensions) {
    ++watchdog_extensions_;
    timers_.Set(LoopTimer::kWatchdog, limit);
    return;
  }
  watchdog_strikes_ = std::min(watchdog_strikes_ + 1, kMostWatchdogDoublings);
  const std::string reason =
      absl::StrCat("no verdict within ", absl::FormatDuration(clock_.Now() - sent_at_), " for ",
                   sent_rows_, " rows");
  const uint64_t incarnation = target_->incarnation;
  OnLost(incarnation, reason);
  session_.GiveUp(incarnation, reason);
}

void Verification::OnRetry() {
  if (state_ == State::kBackingOff) Send();
}

Verified Verification::OnPatience() const {
  return {Verified::Kind::kFailed,
          {},
          absl::UnavailableError(absl::StrCat(
              "no target for ", absl::FormatDuration(options_.target_patience), ": ", trouble_))};
}

absl::Status Verification::DeadlineStatus() const {
  if (without_slot_since_.has_value()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the target had no free slot until the request's deadline (",
                     absl::FormatDuration(clock_.Now() - *without_slot_since_), ")"));
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "the request's deadline passed after ", committed_.size() - request_.prompt_tokens(), " of ",
      request_.max_tokens, " tokens", trouble_.empty() ? "" : "; ", trouble_));
}

// On the same stream, as a new sequence: no answer to the old one can be taken for the new one's.
void Verification::StartOver(absl::string_view fault) {
  session_.Close();
  held_ = 0;
  TroubleBegins(fault);
  observer_.OnReplay(fault);
  if (target_.has_value()) {
    BackOff(backoff_.Next());
  } else {
    state_ = State::kNoStream;
  }
}

void Verification::BackOff(absl::Duration delay) {
  state_ = State::kBackingOff;
  timers_.Set(LoopTimer::kRetry, delay);
}

void Verification::TroubleBegins(absl::string_view reason) {
  if (trouble_.empty()) timers_.Set(LoopTimer::kTargetPatience, options_.target_patience);
  trouble_ = reason.empty() ? "the target gave no reason" : std::string(reason);
}

void Verification::TroubleEnds() {
  if (trouble_.empty()) return;
  trouble_.clear();
  backoff_.Reset();
  watchdog_strikes_ = 0;
  timers_.Cancel(LoopTimer::kTargetPatience);
}

void Verification::StopWaiting(bool answered) {
  if (state_ != State::kWaiting) return;
  state_ = State::kIdle;
  timers_.Cancel(LoopTimer::kWatchdog);
  if (answered) {
    pace_.Answered(sent_rows_, clock_.Now() - sent_at_);
  } else {
    pace_.Forgotten(sent_rows_);
  }
}

absl::Duration Verification::WatchdogTime(uint32_t rows) const {
  const absl::Duration expected = pace_.Expected(rows, clock_.Now());
  return std::max(options_.watchdog_least, expected * options_.watchdog_factor) *
         (1 << watchdog_strikes_);
}

uint32_t Verification::Pieces(uint32_t tokens) const {
  return std::max(1u, (tokens + options_.most_prefix_tokens - 1) / options_.most_prefix_tokens);
}

Verified Verification::Fail(absl::Status status) const {
  return {Verified::Kind::kFailed, {}, std::move(status)};
}

}  // namespace tandem::orchestrator
