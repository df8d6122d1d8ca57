// Exchanges one Step at a time with one target. It decides what is sent of a round and what an
// answer means. A long prefix goes in pieces, one in each Step; the last Step has the round's
// draft tokens.
//
// Behind the last Step of a round a chained one may follow: blocks for likely outcomes of it, of
// which the target goes on with the one that comes true (target.proto, Step.after). If the next
// round is to verify that block, its Step is sent already; else the next Step overrules it, and its
// verdict is ignored.
//
// Round numbers rise with every Step of a sequence. A round that is sent again to a new sequence or
// target keeps its number, its draft tokens and their q. So each round leaves enough numbers below
// its own for the pieces of a whole replay. An answer counts only if it answers the Step that was
// sent last, on the stream that it was sent on (no two streams of any targets share an
// incarnation). So an answer is applied once, and a late or doubled one is ignored.
//
// A block that is longer than the target takes is cut. It was drafted for another target, with a
// higher limit. The limit alone decides where it is cut, never a token's value, so the output's
// distribution does not change. A tree is cut likewise: to the nodes and the depth that the target
// takes, or to the chain of first children where it takes no trees. Trees are drafted only under
// rules that are exact whatever is cut.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/concurrency/clock.h"
#include "common/telemetry/span_context.h"
#include "orchestrator/request/committed_tokens.h"
#include "orchestrator/request/loop_options.h"
#include "orchestrator/request/loop_timers.h"
#include "orchestrator/request/prepared_block.h"
#include "orchestrator/request/request.h"
#include "orchestrator/request/round_observer.h"
#include "orchestrator/request/verdict.h"
#include "orchestrator/verify/prompt_logprobs.h"
#include "orchestrator/verify/stage_clock.h"
#include "orchestrator/verify/step_watchdog.h"
#include "orchestrator/verify/target_info.h"
#include "orchestrator/verify/verify_session.h"

namespace tandem::orchestrator {

// Not thread-safe: used on the request's strand. Its alarm is kWatchdog. It tells the observer
// about Steps that were submitted and answered, and about a prefix that is sent again to the same
// sequence.
class StepExchange {
 public:
  // All references outlive this object.
  StepExchange(const SampleRequest& request, const LoopOptions& options,
               const CommittedTokens& committed, VerifySession& session, LoopTimers& timers,
               const concurrency::Clock& clock, RoundObserver& observer);

  // Begins a round with `block` after the committed tokens. Nothing is sent yet.
  void BeginRound(CandidateTree block);
  // Sends a chained Step with these blocks, cut to what the text and the target have room for. Does
  // nothing where the last Step of the round is not on its way, the target takes none, or one was
  // sent behind it.
  void Chain(absl::Span<const PreparedBlock> blocks);
  // The round's block ended so: of a chained Step behind it the target goes on with the block for
  // that, or with none.
  void Ended(uint32_t node, uint32_t next_token);
  // After Ended: the block that the target goes on with, if this is its id; else null.
  const CandidateTree* Chained(base::BlockId id) const;

  // Sends the next Step of the round on the target's stream: the prefix from where the target holds
  // it, and the draft tokens if the prefix ends there. Call it while no Step is unanswered.
  // `target` must not move until Drop.
  void Send(const TargetInfo& target);
  // Same as Send, after a wait for a target.
  void SendAfterWait(const TargetInfo& target);
  // Forgets what was sent to the present target. The next Step begins a new sequence.
  void Drop();

  struct Answer {
    enum class Kind : uint8_t {
      kVerdict,       // the round's verdict: `reply`; its entries are not validated
      kPiece,         // held() tokens of the prefix were taken; call Send again
      kNeedPrefix,    // the target lacks part of the prefix; Send sends it again
      kBlockRefused,  // the target refuses a field of the draft's block: `reply`
      kNoSlot,        // `reply.retry_after`; nothing was taken
      kFault,         // the target's fault: `fault`, `cause`; leave the target
      kFailed,        // `status` ends the request
    };
    Kind kind = Kind::kVerdict;
    VerifyReply reply;
    std::string fault;
    LeaveCause cause = LeaveCause::kFault;
    absl::Status status;
  };
  // Absent if the verdict is late or doubled. Otherwise the Step that was sent last is answered.
  std::optional<Answer> OnVerdict(base::Incarnation incarnation, VerifyReply reply);

  struct Silence {
    bool of_stream;  // true: nothing came on the stream; false: only this verdict does not come
    std::string reason;
  };
  // Absent if the Step has more time.
  std::optional<Silence> OnWatchdog();
  // The targets work again: the count of lost Steps in a row begins anew.
  void ForgetStrikes() { watchdog_.Reset(); }

  concurrency::Instant sent_at() const { return watchdog_.sent_at(); }  // the last Step
  uint32_t held() const { return held_; }  // tokens that the target vouched for, or has taken
  uint32_t replays() const { return replays_; }
  uint64_t cached_tokens() const { return cached_tokens_; }  // as in AcceptanceCounts
  const CandidateTree& block() const { return block_; }      // as it was sent last
  // The log probabilities of prompt tokens that came since the last call.
  std::optional<PromptLogprobs> TakePromptLogprobs() { return prompt_logprobs_.Collected(); }
  RoundStages TakeSpent() { return stages_.Take(); }

 private:
  void CutBlock(const TargetInfo& target);
  void ForgetChained();
  Answer Taken(VerifyReply reply);
  Answer NeedPrefix(const VerifyReply& reply);
  Answer NoSlot(VerifyReply reply);
  Answer Invalid(VerifyReply reply);
  void StopWaiting(bool answered);
  absl::Duration WatchdogTime() const;
  absl::Duration Remaining(concurrency::Instant now) const;  // of the request's time
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

  struct ChainedStep {
    uint64_t round = 0;
    std::vector<ChainedBlock> blocks;
  };
  std::optional<ChainedStep> chained_;  // behind the last Step of the round
  bool sent_ahead_ = false;             // the round's Step was a chained one, and is sent

  // The Step that was sent last.
  bool waiting_ = false;                // the Step is unanswered
  const TargetInfo* target_ = nullptr;  // where it was sent
  uint64_t sent_round_ = 0;
  uint32_t sent_keep_ = 0;
  uint32_t sent_end_ = 0;
  uint32_t sent_rows_ = 0;
  std::optional<telemetry::SpanContext> sent_trace_;
  bool sent_replay_ = false;
  bool sent_chained_ = false;
  bool sent_prompt_logprobs_ = false;  // the Step asked for them
  StepWatchdog watchdog_;
  StageClock stages_;
  uint32_t replays_ = 0;
  uint64_t cached_tokens_ = 0;
};

}  // namespace tandem::orchestrator
