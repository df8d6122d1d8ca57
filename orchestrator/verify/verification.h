// One request's dealings with its targets: brings one round at a time to a verdict, over as many
// Steps, streams and targets as it takes. What is sent and what comes of it is StepExchange's;
// where it goes is TargetChoice's; this is what the one means for the other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "orchestrator/request/committed_tokens.h"
#include "orchestrator/request/loop_options.h"
#include "orchestrator/request/loop_timers.h"
#include "orchestrator/request/request.h"
#include "orchestrator/request/round_observer.h"
#include "orchestrator/verify/step_exchange.h"
#include "orchestrator/verify/target_choice.h"
#include "orchestrator/verify/verify_session.h"

namespace tandem::orchestrator {

// How a round's verification ended.
struct Verified {
  enum class Kind : uint8_t {
    kVerdict,       // `reply` is OK; its entries are not validated
    kBlockRefused,  // the target takes no such candidates: the same round is to go on without them
    kFailed,        // `status` ends the request
  };
  Kind kind = Kind::kVerdict;
  VerifyReply reply;
  absl::Status status;
};

// Not thread-safe: one request's strand. What returns a value ends the round's verification by it.
class Verification {
 public:
  // All references outlive this.
  Verification(const SampleRequest& request, const LoopOptions& options,
               const CommittedTokens& committed, VerifySession& session, LoopTimers& timers,
               const concurrency::Clock& clock, RoundObserver& observer);

  // Verifies `block` after the committed tokens. Its verdict comes through an event; a value at
  // once is a failure.
  std::optional<Verified> Begin(CandidateTree block);
  // After a verdict: it was good, or it was broken and the same round is to run again, from the
  // start.
  void Accepted();
  std::optional<Verified> Repeat(absl::string_view fault);

  // Of prompt tokens, those that came since the last call; to be asked after each verdict.
  std::optional<PromptLogprobs> TakePromptLogprobs() { return exchange_.TakePromptLogprobs(); }

  // Frees the target's sequence, between rounds or for good. The next round begins a new one.
  void Close();

  std::optional<Verified> OnVerdict(base::Incarnation incarnation, VerifyReply reply);
  std::optional<Verified> OnReady();
  std::optional<Verified> OnLost(base::Incarnation incarnation, const std::string& reason);
  std::optional<Verified> OnWatchdog();
  std::optional<Verified> OnRetry();
  Verified OnPatience() const;
  // The request's deadline has come: what to tell the client.
  absl::Status DeadlineStatus() const;

  // Of the target that was used last; 0 before the first one.
  uint32_t vocabulary_size() const { return choice_.vocabulary_size(); }
  uint32_t max_draft_tokens() const { return choice_.max_draft_tokens(); }
  // What a round takes at the present target, queueing included; zero while nothing is known.
  absl::Duration RoundTime() const;
  uint32_t replays() const { return exchange_.replays(); }
  // Where the verification's time went since the last call: slot, network, queue and device.
  RoundStages TakeSpent() { return exchange_.TakeSpent(); }
  // Time spent waiting for a free slot, so far.
  absl::Duration slot_time() const { return choice_.slot_wait().total(clock_.Now()); }
  // The block of the round that is being verified.
  const CandidateTree& block() const { return exchange_.block(); }

 private:
  std::optional<Verified> Seek();
  std::optional<Verified> Go(absl::StatusOr<TargetChoice::Found> found);
  std::optional<Verified> StartOver(absl::string_view fault, LeaveCause cause);
  void EndStrikes(bool was_troubled);
  Verified Ends(Verified verified);
  Verified Fails(absl::Status status);

  const SampleRequest request_;
  const LoopOptions& options_;
  const CommittedTokens& committed_;
  VerifySession& session_;
  const concurrency::Clock& clock_;
  RoundObserver& observer_;

  StepExchange exchange_;
  TargetChoice choice_;
  bool in_round_ = false;
};

}  // namespace tandem::orchestrator
