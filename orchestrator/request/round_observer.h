// Who wants to see a sample's rounds (tracing, metrics, the client's time line). No-ops here, so that an
// observer overrides what it needs and the loop calls without asking.
//
// Calls come on the request's strand, in the order of the round: begun, awaited, drafted, submitted (once more for
// each Step: the pieces of a long prefix, replays), verified, decided. A round may end before that: then
// OnEnded follows. `at` is of the loop's clock, and never goes back.
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
  // Its block does not come at once: it is waited for, since the round began.
  virtual void OnDraftAwaited(concurrency::Instant /*at*/) {}
  // An Advance goes out that asks for up to so many draft tokens: before OnDraftAwaited, or after it where the draft
  // had to be opened first. Returns what travels with it, as OnSubmitted does.
  virtual std::optional<telemetry::SpanContext> OnProposing(uint32_t /*max_draft_tokens*/) {
    return std::nullopt;
  }
  // A block came, or the round goes on without one. More than once where the target takes no such block.
  virtual void OnDrafted(concurrency::Instant /*at*/, uint32_t /*candidates*/,
                         std::optional<PlainCause> /*cause*/) {}
  // A Step of so many rows goes out. Returns what travels with it: the context of its span, if there is one.
  virtual std::optional<telemetry::SpanContext> OnSubmitted(concurrency::Instant /*at*/,
                                                            uint32_t /*rows*/) {
    return std::nullopt;
  }
  // The target is left, with its Step unanswered or none under way. OnReplay follows where the round goes on.
  virtual void OnTargetLeft(concurrency::Instant /*at*/, LeaveCause /*cause*/) {}
  // A Step came to nothing; another one follows.
  virtual void OnReplay(concurrency::Instant /*at*/, absl::string_view /*reason*/) {}
  // A good answer to the last Step that was submitted.
  virtual void OnVerified(concurrency::Instant /*at*/, const VerifyReply& /*reply*/) {}
  virtual void OnDecided(const RoundRecord& /*round*/) {}
  // The sample is over; as the last call.
  virtual void OnEnded(concurrency::Instant /*at*/, const Ending& /*ending*/) {}
};

}  // namespace tandem::orchestrator
