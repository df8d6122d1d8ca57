// A Step and its answer. Finding a target for it: verification_target.cc.
#include "orchestrator/verify/verification.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/messages/limits.h"
#include "orchestrator/verify/target_pace.h"

namespace tandem::orchestrator {

Verification::Verification(const GenerationRequest& request, const LoopOptions& options,
                           const CommittedTokens& committed, VerifySession& session,
                           LoopTimers& timers, const concurrency::Clock& clock,
                           RoundObserver& observer)
    : request_(request),
      options_(options),
      committed_(committed),
      session_(session),
      timers_(timers),
      clock_(clock),
      observer_(observer),
      prompt_logprobs_(request),
      watchdog_(options),
      backoff_(options.backoff_min, options.backoff_max, request.seed) {}

std::optional<Verified> Verification::Begin(CandidateBlock block) {
  TANDEM_CHECK(state_ == State::kIdle);
  block_ = std::move(block);
  asked_more_ = false;
  spent_ = {};
  counted_until_ = clock_.Now();
  // Numbers rise with every Step, and a round keeps its own when it is sent again: so it leaves
  // room below it for the pieces of a whole replay.
  round_ += Pieces(committed_.size());
  if (!target_.has_value()) return Look();
  Send();
  return std::nullopt;
}

std::optional<Verified> Verification::Repeat(absl::string_view fault) {
  TANDEM_CHECK(state_ == State::kIdle);
  return StartOver(fault, LeaveCause::kFault);
}

void Verification::Accepted() {
  if (target_.has_value()) target_->pace->Good();
  TroubleEnds();
}

void Verification::Send() {
  const uint32_t end = std::min<uint64_t>(committed_.size(), uint64_t{held_} + MaxStepTokens());
  absl::Span<const uint32_t> tokens = committed_.all().subspan(held_, end - held_);
  VerifyStep step;
  step.more = end < committed_.size();
  step.round = round_ - (Pieces(committed_.size() - held_) - 1);
  step.prefix = {held_, {tokens.begin(), tokens.end()}, committed_.HashOf(end)};
  if (held_ == 0) {
    step.setup = speculation::SequenceSettings{.sampling = request_.sampling,
                                               .rule = request_.rule,
                                               .leniency = request_.leniency,
                                               .seed = request_.seed,
                                               .sample_index = request_.sample_index,
                                               .prompt_tokens = request_.prompt_tokens(),
                                               .max_length = request_.max_length(),
                                               .priority = request_.priority,
                                               .logprobs = request_.logprobs};
    sent_replay_ = std::exchange(began_, true);
    if (sent_replay_) ++replays_;
  }
  if (!step.more) step.block = block_;
  step.prompt_logprobs = prompt_logprobs_.Wanted(held_, end);
  const absl::Duration now = clock_.Now();
  if (request_.deadline != absl::InfiniteDuration()) {
    step.remaining = std::max(request_.deadline - now, absl::Microseconds(1));
  }
  sent_round_ = step.round;
  sent_prompt_logprobs_ = step.prompt_logprobs;
  sent_keep_ = held_;
  sent_end_ = end;
  sent_rows_ = static_cast<uint32_t>(tokens.size() + step.block.tokens.size());
  watchdog_.Sent(now);
  counted_until_ = now;
  state_ = State::kWaiting;
  timers_.Set(LoopTimer::kWatchdog, WatchdogTime());
  target_->pace->Submitted(sent_rows_);
  observer_.OnSubmitted(now);
  session_.Submit(target_->incarnation, std::move(step));
}

std::optional<Verified> Verification::OnVerdict(uint64_t incarnation, VerifyReply reply) {
  using Status = VerifyReply::Status;
  if (state_ != State::kWaiting || incarnation != target_->incarnation ||
      reply.round != sent_round_) {
    return std::nullopt;  // late, or twice
  }
  StopWaiting(reply.status == Status::kOk);
  if (reply.status != Status::kNoSlot) slot_wait_.End(watchdog_.sent_at());
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
      return StartOver(
          absl::StrCat("the target says that a Step without a deadline expired: ", reply.message),
          LeaveCause::kFault);
    case Status::kDraining:
      return StartOver(reply.message, LeaveCause::kDraining);
    case Status::kStale:
    case Status::kClosed:
    case Status::kInternal:
      return StartOver(reply.message, LeaveCause::kFault);
  }
  if (sent_prompt_logprobs_) {
    const absl::Status good = prompt_logprobs_.Take(
        sent_keep_, sent_end_, std::move(reply.prompt_logprobs), target_->vocabulary_size);
    if (!good.ok()) {
      return StartOver(absl::StrCat("the target sent a broken verdict: ", good.message()),
                       LeaveCause::kFault);
    }
  }
  CountAnswer(clock_.Now(), reply);
  held_ = sent_end_;
  if (sent_end_ < committed_.size()) {
    if (!trouble_.empty() && sent_end_ > furthest_) {  // it gets on: that is worth more patience
      furthest_ = sent_end_;
      timers_.Set(LoopTimer::kTargetPatience, options_.target_patience);
    }
    Send();
    return std::nullopt;
  }
  return Verified{Verified::Kind::kVerdict, std::move(reply), absl::OkStatus()};
}

// What was waited for until now came to nothing, or was a target.
void Verification::CountVain(absl::Duration now) {
  spent_.slot += now - std::exchange(counted_until_, now);
}

// What the target says of itself counts up to what was waited for it; two clocks are never compared.
void Verification::CountAnswer(absl::Duration now, const VerifyReply& reply) {
  const absl::Duration waited = now - std::exchange(counted_until_, now);
  const absl::Duration device = std::clamp(reply.computed, absl::ZeroDuration(), waited);
  const absl::Duration queue = std::clamp(reply.queued, absl::ZeroDuration(), waited - device);
  spent_.device += device;
  spent_.queue += queue;
  spent_.network += waited - device - queue;
  observer_.OnVerified(now, reply);
}

// A target may have dropped what it held, once a round. One that wants more than everything, or wants
// again what it has just taken, is at fault.
std::optional<Verified> Verification::NeedPrefix(uint32_t held, const std::string& message) {
  if (sent_keep_ == 0 || std::exchange(asked_more_, true)) {
    return StartOver(absl::StrCat("the target needs more than the whole prefix: ", message),
                     LeaveCause::kFault);
  }
  held_ = held < sent_keep_ ? held : 0;
  // The sequence stays, so this is no replay: a new number, and a second answer to the old one is nothing.
  round_ += Pieces(committed_.size() - held_);
  observer_.OnReplay(clock_.Now(), "the target lacks the prefix");
  CountVain(clock_.Now());
  Send();
  return std::nullopt;
}

std::optional<Verified> Verification::NoSlot(const VerifyReply& reply) {
  slot_wait_.Begin(watchdog_.sent_at());
  // Nothing was taken: the next try counts in place of this one.
  if (sent_keep_ == 0) {
    if (sent_replay_) --replays_;
    began_ = sent_replay_;
  }
  LeaveTarget(LeaveCause::kNoSlot, reply.retry_after);
  return Look();
}

// Our own mistake, unless a draft's candidates are what the target does not like: these are not
// worth a request. No verdict was read, so the round may run again under its key.
std::optional<Verified> Verification::Invalid(const VerifyReply& reply) {
  if (!block_.tokens.empty() && sent_end_ == committed_.size()) {
    CountVain(clock_.Now());
    return Verified{Verified::Kind::kBlockRefused, reply, absl::InternalError(reply.message)};
  }
  return Fail(absl::InternalError(absl::StrCat("the target refused a Step: ", reply.message)));
}

// A stream is everybody's: it is given up only when it is silent as a whole. A verdict that does not come
// on a stream that brings others costs this request its sequence, and nobody else anything.
std::optional<Verified> Verification::OnWatchdog() {
  if (state_ != State::kWaiting) return std::nullopt;
  const StepWatchdog::Finding finding = watchdog_.Fired(session_.last_heard());
  if (finding == StepWatchdog::Finding::kWait) {
    timers_.Set(LoopTimer::kWatchdog, WatchdogTime());
    return std::nullopt;
  }
  const std::string reason = absl::StrCat("no verdict of ", target_->name, " within ",
                                          absl::FormatDuration(clock_.Now() - watchdog_.sent_at()),
                                          " for ", sent_rows_, " rows");
  if (finding == StepWatchdog::Finding::kSequenceLost) {
    return StartOver(reason, LeaveCause::kFault);
  }
  const uint64_t incarnation = target_->incarnation;
  session_.GiveUp(incarnation, reason);
  return OnLost(incarnation, reason);
}

absl::Status Verification::DeadlineStatus() const {
  if (slot_wait_.waiting()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the target had no free slot until the request's deadline (",
                     absl::FormatDuration(slot_wait_.waited(clock_.Now())), ")"));
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "the request's deadline passed after ", committed_.size() - request_.prompt_tokens(), " of ",
      request_.max_tokens, " tokens", trouble_.empty() ? "" : "; ", trouble_));
}

void Verification::StopWaiting(bool answered) {
  if (state_ != State::kWaiting) return;
  state_ = State::kIdle;
  timers_.Cancel(LoopTimer::kWatchdog);
  if (answered) {
    target_->pace->Answered(sent_rows_, clock_.Now() - watchdog_.sent_at());
  } else {
    target_->pace->Forgotten(sent_rows_);
  }
}

absl::Duration Verification::WatchdogTime() const {
  return watchdog_.Limit(target_->pace->Expected(sent_rows_, clock_.Now()));
}

absl::Duration Verification::RoundTime() const {
  return target_.has_value() ? target_->pace->Round() : absl::ZeroDuration();
}

// The same for all Steps of a request, so that Pieces holds for a replay, too.
uint32_t Verification::MaxStepTokens() const {
  constexpr uint32_t kMaxWithLogprobs = messages::kMaxPromptLogprobTokens;
  return request_.prompt_logprobs ? std::min(options_.max_prefix_tokens, kMaxWithLogprobs)
                                  : options_.max_prefix_tokens;
}

uint32_t Verification::Pieces(uint32_t tokens) const {
  return std::max(1u, (tokens + MaxStepTokens() - 1) / MaxStepTokens());
}

Verified Verification::Fail(absl::Status status) {
  return {Verified::Kind::kFailed, {}, std::move(status)};
}

}  // namespace tandem::orchestrator
