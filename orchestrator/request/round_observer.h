// Observers of a sample's rounds: tracing, metrics, the client's time line. The default functions
// do nothing, so an observer overrides what it needs, and the loop calls without asking.
//
// Calls come on the request's strand in the order of the round: begun, awaited, drafted, submitted,
// verified, decided. "Submitted" comes once for each Step, so more often for the pieces of a long
// prefix and for replays. If a round ends before it is decided, OnEnded follows. `at` is a time of
// the loop's clock and never goes back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "common/telemetry/span_context.h"
#include "orchestrator/request/request.h"
#include "orchestrator/request/round_record.h"
#include "orchestrator/request/verdict.h"

namespace tandem::orchestrator {

struct Ending;

class RoundObserver {
 public:
  virtual ~RoundObserver() = default;

  virtual void OnRoundBegun(concurrency::Instant /*at*/, uint32_t /*committed*/) {}
  // The block does not come at once. It has been waited for since the round began.
  virtual void OnDraftAwaited(concurrency::Instant /*at*/) {}
  // An Advance for up to so many draft tokens goes out to `draft`, an address. This comes before
  // OnDraftAwaited, or after it if the draft had to be opened first. Returns the context that
  // travels with the Advance, as OnSubmitted does.
  virtual std::optional<telemetry::SpanContext> OnProposing(uint32_t /*max_draft_tokens*/,
                                                            absl::string_view /*draft*/) {
    return std::nullopt;
  }
  // A block came, or the round goes on without one. It comes again if the target refuses the block.
  virtual void OnDrafted(concurrency::Instant /*at*/, uint32_t /*candidates*/,
                         std::optional<PlainCause> /*cause*/) {}
  // A Step of so many rows goes out to `target`, an address. Returns the context of its span, which
  // travels with it; absent if there is no span.
  virtual std::optional<telemetry::SpanContext> OnSubmitted(concurrency::Instant /*at*/,
                                                            uint32_t /*rows*/,
                                                            absl::string_view /*target*/) {
    return std::nullopt;
  }
  // The target is left, with an unanswered Step or with none. OnReplay follows if the round goes
  // on.
  virtual void OnTargetLeft(concurrency::Instant /*at*/, LeaveCause /*cause*/) {}
  // A Step came to nothing, and another one follows.
  virtual void OnReplay(concurrency::Instant /*at*/, absl::string_view /*reason*/) {}
  // A good answer to the last Step came.
  virtual void OnVerified(concurrency::Instant /*at*/, const VerifyReply& /*reply*/) {}
  virtual void OnDecided(const RoundRecord& /*round*/) {}
  // The sample is over. This is the last call.
  virtual void OnEnded(concurrency::Instant /*at*/, const Ending& /*ending*/) {}
};

}  // namespace tandem::orchestrator
