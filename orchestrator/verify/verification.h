// Brings one round at a time of one request to a verdict, over as many Steps, streams and targets
// as that takes. StepExchange decides what is sent and what an answer means. TargetChoice decides
// where it goes. This class connects the two.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/concurrency/clock.h"
#include "orchestrator/request/committed_tokens.h"
#include "orchestrator/request/decoding_load.h"
#include "orchestrator/request/loop_options.h"
#include "orchestrator/request/loop_timers.h"
#include "orchestrator/request/request.h"
#include "orchestrator/request/round_observer.h"
#include "orchestrator/verify/step_exchange.h"
#include "orchestrator/verify/target_choice.h"
#include "orchestrator/verify/verify_session.h"

namespace tandem::orchestrator {

// How the verification of a round ended.
struct Verified {
  enum class Kind : uint8_t {
    kVerdict,       // `reply` is OK; its entries are not validated
    kBlockRefused,  // the target refuses such draft tokens: repeat the round without them
    kFailed,        // `status` ends the request
  };
  Kind kind = Kind::kVerdict;
  VerifyReply reply;
  absl::Status status;
};

// Not thread-safe: used on the request's strand. If a function returns a Verified, it ends the
// round's verification.
class Verification {
 public:
  // All references outlive this object.
  Verification(const SampleRequest& request, const LoopOptions& options,
               const CommittedTokens& committed, VerifySession& session, LoopTimers& timers,
               const concurrency::Clock& clock, RoundObserver& observer);

  // Verifies `block` after the committed tokens. An event brings the verdict. A value that is
  // returned at once is a failure.
  std::optional<Verified> Begin(CandidateTree block);
  // The round's block was prepared for: as StepExchange::Chain and Chained.
  void Chain(absl::Span<const PreparedBlock> blocks) { exchange_.Chain(blocks); }
  const CandidateTree* Chained(base::BlockId id) const { return exchange_.Chained(id); }
  // Call one of these after a verdict. Accepted means that it was good, and how the block ended.
  // Repeat means that it was broken; the same round runs again from the start.
  void Accepted(uint32_t node, uint32_t next_token);
  std::optional<Verified> Repeat(absl::string_view fault);

  // The log probabilities of prompt tokens that came since the last call. Call it after each
  // verdict.
  std::optional<PromptLogprobs> TakePromptLogprobs() { return exchange_.TakePromptLogprobs(); }

  // Frees the target's sequence, between rounds or for good. The next round begins a new sequence.
  void Close();
  // The request pauses; as VerifySession::OfferSlot.
  bool OfferSlot() { return session_.OfferSlot(); }

  std::optional<Verified> OnVerdict(base::Incarnation incarnation, VerifyReply reply);
  std::optional<Verified> OnReady();
  std::optional<Verified> OnLost(base::Incarnation incarnation, const std::string& reason);
  std::optional<Verified> OnWatchdog();
  std::optional<Verified> OnRetry();
  Verified OnPatience() const;
  // The status for the client when the request's deadline has come.
  absl::Status DeadlineStatus() const;

  // The vocabulary size of the target used last; 0 before the first one.
  uint32_t vocabulary_size() const { return choice_.vocabulary_size(); }
  uint32_t max_draft_tokens() const { return choice_.max_draft_tokens(); }
  uint32_t max_nodes() const { return choice_.max_nodes(); }  // of a tree; 0: it takes chains alone
  bool chains() const {  // the present target takes chained Steps
    return choice_.target().has_value() && choice_.target()->chains;
  }
  // The time of a round at the present target with its queueing; zero while it is unknown.
  absl::Duration RoundTime() const;
  // The time of a pass of `rows` at the present target, by its cost curve; zero while it is
  // unknown.
  absl::Duration PassTime(uint32_t rows) const;
  // What its target decodes, for all streams; with 0 sequences where that is not known.
  DecodingLoad Decoding() const;
  uint32_t replays() const { return exchange_.replays(); }
  uint64_t cached_tokens() const { return exchange_.cached_tokens(); }
  // The time of the verification since the last call, by stage: slot, network, queue and device.
  RoundStages TakeSpent() { return exchange_.TakeSpent(); }
  // The time spent waiting for a free slot so far.
  absl::Duration slot_time() const { return choice_.slot_wait().total(clock_.Now()); }
  // The block of the round that is being verified. It is shorter than the one that Begin got if the
  // target takes no such long ones.
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
