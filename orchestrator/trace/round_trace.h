// Traces a sample's rounds as spans. Below `generate` each round is a span `round`. Its children
// are `draft.propose` and a `verify` for each Step that was sent (common/telemetry/attributes.h).
// Their contexts travel to draft and target with the messages.
//
// The spans propose and verify cover a round, except the wait for a target or a slot and the
// orchestrator's own work. The durations of propose and of the answered verify spans sum up to
// exactly draft + network + queue + device of the round's stages. Slot and own are the rest.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/acceptance/rule.h"
#include "common/concurrency/instant.h"
#include "common/telemetry/tracer.h"
#include "orchestrator/request/round_observer.h"

namespace tandem::orchestrator {

// Used on the request's strand only.
class RoundTrace final : public RoundObserver {
 public:
  // `request` is the span `generate`. The tracer outlives this object.
  RoundTrace(telemetry::Tracer& tracer, const telemetry::SpanContext& request,
             acceptance::Rule rule, uint32_t sample_index);
  ~RoundTrace() override;

  void OnRoundBegun(concurrency::Instant at, uint32_t committed) override;
  void OnDraftAwaited(concurrency::Instant at) override;
  void OnDrafted(concurrency::Instant at, uint32_t candidates,
                 std::optional<PlainCause> cause) override;
  std::optional<telemetry::SpanContext> OnProposing(uint32_t max_draft_tokens,
                                                    absl::string_view draft) override;
  std::optional<telemetry::SpanContext> OnSubmitted(concurrency::Instant at, uint32_t rows,
                                                    absl::string_view target) override;
  void OnTargetLeft(concurrency::Instant at, LeaveCause cause) override;
  void OnReplay(concurrency::Instant at, absl::string_view reason) override;
  void OnVerified(concurrency::Instant at, const VerifyReply& reply) override;
  void OnDecided(const RoundRecord& round) override;
  void OnEnded(concurrency::Instant at, const Ending& ending) override;

 private:
  using OwnedSpan = std::unique_ptr<telemetry::Span>;

  OwnedSpan Under(const OwnedSpan& parent, absl::string_view name, telemetry::SpanKind kind,
                  concurrency::Instant at);
  void EndVerify(concurrency::Instant at, absl::string_view status);

  telemetry::Tracer& tracer_;
  const telemetry::SpanContext request_;
  const acceptance::Rule rule_;
  const uint32_t sample_index_;

  uint32_t rounds_ = 0;
  concurrency::Instant began_;  // the round
  // The open spans. Children end before their parent.
  OwnedSpan round_;
  OwnedSpan propose_;
  OwnedSpan verify_;
};

}  // namespace tandem::orchestrator
