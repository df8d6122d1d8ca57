// One Step at a time with one target: what is sent of a round, and what its answer means. A long
// prefix goes in pieces, one a Step; the last one has the round's candidates.
//
// Round numbers rise with every Step of a sequence. A round that is sent again to a new sequence or
// target keeps its number, its candidates and their q, so it leaves room below it for the pieces of
// a whole replay. An answer counts only for the Step that was sent last, from the stream it was
// sent on (no two streams share an incarnation, of whichever targets): so one that was read is
// applied, once, and a late or doubled one is nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "orchestrator/request/committed_tokens.h"
#include "orchestrator/request/loop_options.h"
#include "orchestrator/request/loop_timers.h"
#include "orchestrator/request/request.h"
#include "orchestrator/request/round_observer.h"
#include "orchestrator/request/verdict.h"
#include "orchestrator/verify/prompt_logprobs.h"
#include "orchestrator/verify/stage_clock.h"
#include "orchestrator/verify/step_watchdog.h"
#include "orchestrator/verify/target_info.h"
#include "orchestrator/verify/verify_session.h"

namespace tandem::orchestrator {

// Not thread-safe: one request's strand. Its alarm is kWatchdog. It tells the observer of Steps
// that were submitted and answered, and of a prefix that is sent again to the same sequence.
class StepExchange {
 public:
  // All references outlive this.
  StepExchange(const SampleRequest& request, const LoopOptions& options,
               const CommittedTokens& committed, VerifySession& session, LoopTimers& timers,
               const concurrency::Clock& clock, RoundObserver& observer);

  // A new round: `block` after the committed tokens. Nothing is sent yet.
  void BeginRound(CandidateTree block);
  // Sends the next Step of the round, on the target's stream: the prefix from where the target
  // holds it, and the candidates if it ends there. No Step is unanswered. `target` stays where it
  // is until Drop.
  void Send(const TargetInfo& target);
  // The same, after time that was waited for a target.
  void SendAfterWait(const TargetInfo& target);
  // What was sent to the present target is nothing any more: the next Step begins a new sequence.
  void Drop();

  struct Answer {
    enum class Kind : uint8_t {
      kVerdict,       // the round's: `reply`, whose entries are not validated
      kPiece,         // held() tokens of the prefix were taken; Send goes on
      kNeedPrefix,    // the target lacks some of it; Send sends it once more
      kBlockRefused,  // the target takes no such candidates: `reply`
      kNoSlot,        // `reply.retry_after`; nothing was taken
      kFault,         // the target's: `fault`, `cause`; it is to be left
      kFailed,        // `status` ends the request
    };
    Kind kind = Kind::kVerdict;
    VerifyReply reply;
    std::string fault;
    LeaveCause cause = LeaveCause::kFault;
    absl::Status status;
  };
  // Absent: late, or twice. Else the Step that was sent is answered.
  std::optional<Answer> OnVerdict(base::Incarnation incarnation, VerifyReply reply);

  struct Silence {
    bool
        of_stream;  // nothing came on it; else it brings other verdicts, and this one does not come
    std::string reason;
  };
  // Absent: the Step has more time.
  std::optional<Silence> OnWatchdog();
  // The targets are well again: no Step was lost in a row.
  void ForgetStrikes() { watchdog_.Reset(); }

  concurrency::Instant sent_at() const { return watchdog_.sent_at(); }  // the last Step
  uint32_t held() const { return held_; }  // tokens that the target vouched for, or has taken
  uint32_t replays() const { return replays_; }
  const CandidateTree& block() const { return block_; }
  // Of prompt tokens, those that came since the last call.
  std::optional<PromptLogprobs> TakePromptLogprobs() { return prompt_logprobs_.Collected(); }
  RoundStages TakeSpent() { return stages_.Take(); }

 private:
  Answer Taken(VerifyReply reply);
  Answer NeedPrefix(const VerifyReply& reply);
  Answer NoSlot(VerifyReply reply);
  Answer Invalid(VerifyReply reply);
  void StopWaiting(bool answered);
  absl::Duration WatchdogTime() const;
  uint32_t MaxStepTokens() const;
  uint32_t Pieces(uint32_t tokens) const;

  const SampleRequest request_;
  const LoopOptions& options_;
  const CommittedTokens& committed_;
  VerifySession& session_;
  LoopTimers& timers_;
  const concurrency::Clock& clock_;
  RoundObserver& observer_;

  PromptLogprobsIntake prompt_logprobs_;
  CandidateTree block_;  // of the round
  uint64_t round_ = 0;   // its number
  uint32_t held_ = 0;    // committed tokens that the target vouched for, or was sent and answered
  bool began_ = false;   // a target was ever sent the prefix: sending it again is a replay
  bool asked_more_ = false;  // the round's target asked for prefix that it should hold, once

  // The Step that was sent last.
  bool waiting_ = false;                // it is unanswered
  const TargetInfo* target_ = nullptr;  // where it was sent
  uint64_t sent_round_ = 0;
  uint32_t sent_keep_ = 0;
  uint32_t sent_end_ = 0;
  uint32_t sent_rows_ = 0;
  bool sent_replay_ = false;
  bool sent_prompt_logprobs_ = false;  // they were asked for
  StepWatchdog watchdog_;
  StageClock stages_;
  uint32_t replays_ = 0;
};

}  // namespace tandem::orchestrator
