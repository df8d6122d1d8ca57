#include "orchestrator/verify/verification.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "orchestrator/request/internal_reason.h"
#include "orchestrator/verify/target_pace.h"

namespace tandem::orchestrator {

Verification::Verification(const SampleRequest& request, const LoopOptions& options,
                           const CommittedTokens& committed, VerifySession& session,
                           LoopTimers& timers, const concurrency::Clock& clock,
                           RoundObserver& observer)
    : request_(request),
      options_(options),
      committed_(committed),
      session_(session),
      clock_(clock),
      observer_(observer),
      exchange_(request, options, committed, session, timers, clock, observer),
      choice_(request, options, session, timers, clock, observer) {}

std::optional<Verified> Verification::Begin(CandidateTree block) {
  TANDEM_CHECK(!in_round_);
  in_round_ = true;
  exchange_.BeginRound(std::move(block));
  if (!choice_.target().has_value()) return Seek();
  exchange_.Send(*choice_.target());
  return std::nullopt;
}

std::optional<Verified> Verification::Repeat(absl::string_view fault) {
  TANDEM_CHECK(!in_round_);
  in_round_ = true;
  return StartOver(fault, LeaveCause::kFault);
}

void Verification::Accepted(uint32_t node, uint32_t next_token) {
  exchange_.Ended(node, next_token);
  if (choice_.target().has_value()) choice_.target()->pace->Good();
  const bool troubled = choice_.troubled();
  choice_.Well();
  EndStrikes(troubled);
}

void Verification::Close() {
  exchange_.Drop();
  choice_.Close();
  in_round_ = false;
}

// ---- where it goes ----

std::optional<Verified> Verification::Seek() {
  const bool troubled = choice_.troubled();
  absl::StatusOr<TargetChoice::Found> found = choice_.Seek();
  EndStrikes(troubled);
  return Go(std::move(found));
}

std::optional<Verified> Verification::Go(absl::StatusOr<TargetChoice::Found> found) {
  if (!found.ok()) return Fails(std::move(found).status());
  if (*found == TargetChoice::Found::kTarget) exchange_.SendAfterWait(*choice_.target());
  return std::nullopt;
}

// Starts over as a new sequence, at another target if possible. So no answer to the old sequence
// can be taken for the new one's.
std::optional<Verified> Verification::StartOver(absl::string_view fault, LeaveCause cause) {
  exchange_.Drop();
  choice_.LeaveForFault(fault, cause);
  observer_.OnReplay(clock_.Now(), fault);
  return Seek();
}

std::optional<Verified> Verification::OnReady() {
  if (!choice_.waits()) return std::nullopt;
  return Seek();
}

std::optional<Verified> Verification::OnRetry() { return Go(choice_.OnRetry()); }

std::optional<Verified> Verification::OnLost(base::Incarnation incarnation,
                                             const std::string& reason) {
  if (!choice_.target().has_value() || choice_.target()->incarnation != incarnation) {
    return std::nullopt;
  }
  exchange_.Drop();
  choice_.LeaveLost();
  if (!in_round_) return std::nullopt;
  choice_.Trouble(reason);
  observer_.OnReplay(clock_.Now(), reason);
  return Seek();
}

// ---- what the target says ----

std::optional<Verified> Verification::OnVerdict(base::Incarnation incarnation, VerifyReply reply) {
  using Kind = StepExchange::Answer::Kind;
  std::optional<StepExchange::Answer> answer = exchange_.OnVerdict(incarnation, std::move(reply));
  if (!answer.has_value()) return std::nullopt;
  if (answer->kind != Kind::kNoSlot) choice_.HadSlot(exchange_.sent_at());
  switch (answer->kind) {
    case Kind::kVerdict:
      return Ends({Verified::Kind::kVerdict, std::move(answer->reply), absl::OkStatus()});
    case Kind::kPiece:
      choice_.GotOn(exchange_.held());
      [[fallthrough]];
    case Kind::kNeedPrefix:
      exchange_.Send(*choice_.target());
      return std::nullopt;
    case Kind::kBlockRefused: {
      absl::Status status = absl::InternalError(answer->reply.message);
      return Ends({Verified::Kind::kBlockRefused, std::move(answer->reply), std::move(status)});
    }
    case Kind::kNoSlot:
      exchange_.Drop();
      choice_.LeaveForSlot(exchange_.sent_at(), answer->reply.retry_after,
                           std::move(answer->reply.message));
      return Seek();
    case Kind::kFault:
      return StartOver(answer->fault, answer->cause);
    case Kind::kFailed:
      break;
  }
  return Fails(std::move(answer->status));
}

// A stream serves many requests, so it is given up only if it is silent as a whole. If it brings
// other verdicts but not this one, only this request loses its sequence.
std::optional<Verified> Verification::OnWatchdog() {
  const std::optional<StepExchange::Silence> silence = exchange_.OnWatchdog();
  if (!silence.has_value()) return std::nullopt;
  if (!silence->of_stream) return StartOver(silence->reason, LeaveCause::kFault);
  const base::Incarnation incarnation = choice_.target()->incarnation;
  session_.GiveUp(incarnation, silence->reason);
  return OnLost(incarnation, silence->reason);
}

// Lost Steps count in a row until the trouble that they were part of is over.
void Verification::EndStrikes(bool was_troubled) {
  if (was_troubled && !choice_.troubled()) exchange_.ForgetStrikes();
}

// ---- how it ends ----

Verified Verification::Ends(Verified verified) {
  in_round_ = false;
  return verified;
}

Verified Verification::Fails(absl::Status status) {
  return Ends({Verified::Kind::kFailed, {}, std::move(status)});
}

Verified Verification::OnPatience() const {
  return {Verified::Kind::kFailed,
          {},
          WithInternalReason(
              absl::UnavailableError(absl::StrCat("no target answered for ",
                                                  absl::FormatDuration(options_.target_patience))),
              choice_.trouble())};
}

absl::Status Verification::DeadlineStatus() const {
  if (choice_.slot_wait().waiting()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no target had ", choice_.AwaitedRoom(), " until the request's deadline (",
        absl::FormatDuration(choice_.slot_wait().waited(clock_.Now())), ")", choice_.LastReason()));
  }
  return WithInternalReason(
      absl::DeadlineExceededError(absl::StrCat("the request's deadline passed after ",
                                               committed_.size() - request_->prompt_tokens(),
                                               " of ", request_->max_tokens, " tokens")),
      choice_.trouble());
}

absl::Duration Verification::RoundTime() const {
  return choice_.target().has_value() ? choice_.target()->pace->Round() : absl::ZeroDuration();
}

absl::Duration Verification::PassTime(uint32_t rows) const {
  return choice_.target().has_value() ? choice_.target()->pace->PassTime(rows)
                                      : absl::ZeroDuration();
}

DecodingLoad Verification::Decoding() const {
  return choice_.target().has_value() ? choice_.target()->pace->Decoding() : DecodingLoad();
}

}  // namespace tandem::orchestrator
