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
#include "common/concurrency/clock.h"
#include "common/telemetry/tracer.h"
#include "orchestrator/draft/draft_session.h"
#include "orchestrator/request/round_observer.h"
#include "orchestrator/verify/verify_session.h"

namespace tandem::orchestrator {

// The request's strand only.
class RoundTrace final : public RoundObserver {
 public:
  // `request`: the span `generate`. Tracer and clock outlive this; the clock is the loop's.
  RoundTrace(telemetry::Tracer& tracer, const concurrency::Clock& clock,
             const telemetry::SpanContext& request, acceptance::Rule rule, uint32_t sample_index);
  ~RoundTrace() override;

  // The wrapped ones are used no longer than this lives.
  std::unique_ptr<DraftSession> Wrap(std::unique_ptr<DraftSession> draft) override;
  std::unique_ptr<VerifySession> Wrap(std::unique_ptr<VerifySession> verify) override;

  void OnRoundBegun(absl::Duration at, uint32_t committed) override;
  void OnDraftAwaited(absl::Duration at) override;
  void OnDrafted(absl::Duration at, uint32_t candidates, std::optional<PlainCause> cause) override;
  void OnSubmitted(absl::Duration at) override;
  void OnReplay(absl::Duration at, absl::string_view reason) override;
  void OnVerified(absl::Duration at, const VerifyReply& reply) override;
  void OnDecided(const RoundRecord& round) override;
  void OnEnded(absl::Duration at, const Ending& ending) override;

 private:
  class TracedDraft;
  class TracedVerify;
  using OwnedSpan = std::unique_ptr<telemetry::Span>;

  // What is about to be sent, and by which span: absent when there is none.
  std::optional<telemetry::SpanContext> Sending(const DraftAdvance& advance);
  std::optional<telemetry::SpanContext> Sending(const VerifyStep& step);
  void Left(LeaveCause cause);  // the target, now

  OwnedSpan Under(const OwnedSpan& parent, absl::string_view name, telemetry::SpanKind kind,
                  absl::Duration at);
  void EndVerify(absl::Duration at, absl::string_view status);

  telemetry::Tracer& tracer_;
  const concurrency::Clock& clock_;
  const telemetry::SpanContext request_;
  const acceptance::Rule rule_;
  const uint32_t sample_index_;

  uint32_t rounds_ = 0;
  absl::Duration began_;  // the round
  // Open ones. Children go before their parent.
  OwnedSpan round_;
  OwnedSpan propose_;
  OwnedSpan verify_;
};

}  // namespace tandem::orchestrator
