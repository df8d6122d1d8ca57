// The loop of one request: draft, verify, accept, stream, and again. It is a plain class driven by
// events. It has no gRPC, no thread and no lock. It joins these parts:
//
//   Drafting      asks the draft, and does without it              draft/drafting.h
//   Verification  brings a round to a verdict, across failures     verify/verification.h
//   Acceptor      decides                                          accept/acceptor.h
//   TokenStream   text, its end, the reader                        stream/token_stream.h
//
//   state       waits for                          next
//   kNew        Start                              kVerifying (the first round has no draft)
//   kDrafting   a block, or its deadline           kVerifying
//   kVerifying  a verdict                          kDrafting, kVerifying, kPaused, kEnded
//   kPaused     the reader (OnDrained)             kDrafting, kVerifying; kParked after
//                                                  close_after, or as soon as another request waits
//                                                  for a slot
//   kParked     the reader; nothing is held at     kDrafting, kVerifying (by replay); kEnded after
//               the peers meanwhile                abort_after of both
//   kEnded      nothing                            -
//
// Any state except kNew and kEnded goes to kEnded by OnCancel, the request's deadline or a failure.
//
// Invariants: a committed token is never taken back, each is given to the stream once, and `ended`
// is called once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "orchestrator/accept/acceptor.h"
#include "orchestrator/accept/decide_function.h"
#include "orchestrator/draft/choice/common_drafters.h"
#include "orchestrator/draft/choice/draft_plan.h"
#include "orchestrator/draft/draft_session.h"
#include "orchestrator/draft/drafting.h"
#include "orchestrator/draft/length/common_length.h"
#include "orchestrator/request/committed_tokens.h"
#include "orchestrator/request/ending.h"
#include "orchestrator/request/loop_options.h"
#include "orchestrator/request/loop_timers.h"
#include "orchestrator/request/request.h"
#include "orchestrator/request/round_observer.h"
#include "orchestrator/request/round_record.h"
#include "orchestrator/stream/token_stream.h"
#include "orchestrator/verify/verification.h"
#include "orchestrator/verify/verify_session.h"

namespace tandem::orchestrator {

// The parts that a loop works with. All of them outlive the loop.
struct LoopParts {
  DraftSession* draft = nullptr;  // null: no draft is configured
  VerifySession* verify = nullptr;
  TokenStream* stream = nullptr;
  LoopTimers* timers = nullptr;
  const concurrency::Clock* clock = nullptr;
  RoundObserver* observer = nullptr;
  DecideFunction decide;                          // may be empty
  const concurrency::Clock* cpu_clock = nullptr;  // measures StageTimes::cpu; null: `clock`
  CommonLength* lengths = nullptr;     // null: the loop learns the lengths of its blocks alone
  CommonDrafters* drafters = nullptr;  // null: likewise which drafters are good
  // Called on the strand when the loop begins to wait for its reader, and when it goes on. May be
  // empty.
  std::function<void(bool paused)> on_paused;
};

// Not thread-safe: all calls come on one strand, one at a time, and never from inside one another.
class SpeculationLoop final : public DraftEvents, public VerifyEvents {
 public:
  // `arrived` is the time of the request's arrival on the parts' clock. `ended` is called once, as
  // the last action of an event. It must not destroy the loop.
  SpeculationLoop(SampleRequest request, const LoopOptions& options, LoopParts parts,
                  concurrency::Instant arrived, std::function<void(Ending)> ended);
  ~SpeculationLoop() override;

  void Start();

  void OnDraftOpened(base::DraftAttempt attempt, DraftLimits limits) override;
  void OnBlock(base::DraftAttempt attempt, DraftReplyBlock block) override;
  void OnPrepared(base::DraftAttempt attempt, std::vector<PreparedBlock> prepared) override;
  void OnDraftLost(base::DraftAttempt attempt, DraftLoss loss, std::string reason) override;

  void OnVerifyReady() override;
  void OnSlotWanted() override;
  void OnVerifyLost(base::Incarnation incarnation, std::string reason) override;
  void OnVerdict(base::Incarnation incarnation, VerifyReply reply) override;

  void OnTimer(LoopTimer timer);
  void OnReleased();                   // the stream was held back, and is no more
  void OnDrained();                    // the stream's reader has caught up
  void OnCancel(absl::Status status);  // ends the request with this status, which is not OK

  bool ended() const { return state_ == State::kEnded; }
  const CommittedTokens& committed() const { return committed_; }

 private:
  enum class State : uint8_t { kNew, kDrafting, kVerifying, kPaused, kParked, kEnded };
  class CpuTime;

  void BeginRound();
  uint32_t CandidatesWanted();
  uint32_t TokensLeft() const;  // that the text may get
  DraftLink::Wanted BlockWanted(uint32_t max_draft_tokens) const;
  absl::Duration DraftWait() const;
  void EndDrafting(std::optional<Drafted> drafted);
  void Verify(Drafted drafted, concurrency::Instant now);
  void EndVerification(std::optional<Verified> verified);
  void Accept(VerifyReply reply);
  void Commit(const acceptance::Decision& decision, VerifyReply reply);
  void RoundIsOver();
  void Pause();
  void Park();
  void SetReaderTimer();
  void OnReaderTimer();
  void End(absl::Status status, Finish finish = Finish::kLength);

  const SampleRequest request_;
  const LoopOptions options_;
  const LoopParts parts_;
  const concurrency::Instant arrived_;
  const std::function<void(Ending)> ended_;

  State state_ = State::kNew;
  CommittedTokens committed_;
  const std::unique_ptr<CommonLength> own_lengths_;  // null: the parts have one
  CommonLength& lengths_;
  const std::unique_ptr<CommonDrafters> own_drafters_;  // likewise
  DraftPlan plan_;
  Drafting drafting_;
  Verification verification_;
  Acceptor acceptor_;

  // The present round.
  RoundRecord round_;                 // as far as it is known
  concurrency::Instant stage_began_;  // drafting or verifying
  uint32_t rounds_begun_ = 0;
  bool refusal_logged_ = false;  // one line per text is enough
  concurrency::Instant paused_;  // when its reader's patience began

  StageTimes times_;
};

}  // namespace tandem::orchestrator
