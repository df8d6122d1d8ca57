// A sample's rounds as spans: under `generate` a `round` each, under it `draft.propose` and one `verify` a
// Step that was sent (common/telemetry/attributes.h). Their contexts go to draft and target with what is
// sent there.
//
// propose and verify partition a round, but for what lies between them: the wait for a target or for a slot,
// and the orchestrator's own work. Of the round's stages, the duration of propose and of those verify that
// brought an answer is draft + network + queue + device, exactly; slot and own are the rest.
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

// The request's strand only.
class RoundTrace final : public RoundObserver {
 public:
  // `request`: the span `generate`. The tracer outlives this.
  RoundTrace(telemetry::Tracer& tracer, const telemetry::SpanContext& request,
             acceptance::Rule rule, uint32_t sample_index);
  ~RoundTrace() override;

  void OnRoundBegun(concurrency::Instant at, uint32_t committed) override;
  void OnDraftAwaited(concurrency::Instant at) override;
  void OnDrafted(concurrency::Instant at, uint32_t candidates,
                 std::optional<PlainCause> cause) override;
  std::optional<telemetry::SpanContext> OnProposing(uint32_t max_draft_tokens) override;
  std::optional<telemetry::SpanContext> OnSubmitted(concurrency::Instant at,
                                                    uint32_t rows) override;
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
  // Open ones. Children go before their parent.
  OwnedSpan round_;
  OwnedSpan propose_;
  OwnedSpan verify_;
};

}  // namespace tandem::orchestrator
