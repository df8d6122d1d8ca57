// What a loop hears: each event goes to the part that waits for it, and what comes of it back to the loop.
#include <optional>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "orchestrator/loop/speculation_loop.h"

namespace tandem::orchestrator {

// Adds what an event's handling takes. Handlers are not nested, so nothing counts twice.
class SpeculationLoop::OwnTime {
 public:
  explicit OwnTime(SpeculationLoop& loop) : loop_(loop), began_(Now()) {}
  ~OwnTime() { loop_.times_.own += Now() - began_; }

 private:
  absl::Duration Now() const {
    const LoopParts& parts = loop_.parts_;
    return (parts.work_clock != nullptr ? parts.work_clock : parts.clock)->Now();
  }

  SpeculationLoop& loop_;
  const absl::Duration began_;
};

void SpeculationLoop::Start() {
  TANDEM_CHECK(state_ == State::kNew);
  OwnTime own(*this);
  if (request_->deadline != absl::InfiniteDuration()) {
    parts_.timers->Set(LoopTimer::kRequestDeadline, request_->deadline - parts_.clock->Now());
  }
  drafting_.Open();  // reads the prompt while the target does
  BeginRound();
}

void SpeculationLoop::OnDraftOpened(uint64_t attempt, DraftLimits limits) {
  if (state_ == State::kEnded) return;
  OwnTime own(*this);
  EndDrafting(drafting_.OnOpened(attempt, limits));
}

void SpeculationLoop::OnBlock(uint64_t attempt, DraftReplyBlock block) {
  if (state_ == State::kEnded) return;
  OwnTime own(*this);
  EndDrafting(drafting_.OnBlock(attempt, std::move(block)));
}

void SpeculationLoop::OnDraftLost(uint64_t attempt, DraftLoss loss, std::string /*reason*/) {
  if (state_ == State::kEnded) return;
  OwnTime own(*this);
  EndDrafting(drafting_.OnLost(attempt, loss));
}

void SpeculationLoop::OnVerifyReady() {
  if (state_ == State::kEnded) return;
  OwnTime own(*this);
  EndVerification(verification_.OnReady());
}

void SpeculationLoop::OnVerifyLost(uint64_t incarnation, std::string reason) {
  if (state_ == State::kEnded) return;
  OwnTime own(*this);
  EndVerification(verification_.OnLost(incarnation, reason));
}

void SpeculationLoop::OnVerdict(uint64_t incarnation, VerifyReply reply) {
  if (state_ == State::kEnded) return;
  OwnTime own(*this);
  std::optional<Verified> verified = verification_.OnVerdict(incarnation, std::move(reply));
  if (std::optional<PromptLogprobs> prompt = verification_.TakePromptLogprobs()) {
    parts_.stream->SendPrompt(*std::move(prompt));
  }
  EndVerification(std::move(verified));
}

void SpeculationLoop::OnTimer(LoopTimer timer) {
  if (state_ == State::kEnded) return;
  OwnTime own(*this);
  switch (timer) {
    case LoopTimer::kDraftDeadline:
      return EndDrafting(drafting_.OnDeadline());
    case LoopTimer::kDraftReopen:
      return drafting_.OnReopen();
    case LoopTimer::kWatchdog:
      return EndVerification(verification_.OnWatchdog());
    case LoopTimer::kRetry:
      return EndVerification(verification_.OnRetry());
    case LoopTimer::kTargetPatience:
      return EndVerification(verification_.OnPatience());
    case LoopTimer::kReader:
      return OnReaderTimer();
    case LoopTimer::kRequestDeadline:
      return End(verification_.DeadlineStatus());
  }
}

void SpeculationLoop::OnDrained() {
  if (state_ != State::kPaused && state_ != State::kParked) return;
  if (!parts_.stream->caught_up()) return;
  OwnTime own(*this);
  parts_.timers->Cancel(LoopTimer::kReader);
  if (state_ == State::kParked) drafting_.Open();
  BeginRound();
}

void SpeculationLoop::OnCancel(absl::Status status) {
  TANDEM_CHECK(!status.ok());
  if (state_ == State::kEnded) return;
  End(std::move(status));
}

}  // namespace tandem::orchestrator
