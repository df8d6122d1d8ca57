#include "draft_service/serving/draft_observer.h"

#include <memory>

#include "common/telemetry/attributes.h"
#include "common/transport/status_name.h"

namespace tandem::draft_service {

void DraftObserver::OnEnded(const EndedAdvance& advance) {
  if (advance.recalled.looked_for > 0) metrics_.CountRecalled(advance.recalled);
  metrics_.CountAdvance(advance.status, advance.drafted, advance.queued(), advance.computed);
  if (tracer_ == nullptr || !advance.trace.has_value()) return;
  // Made only now, when all of it is known, and so complete whatever becomes of the sequence.
  std::unique_ptr<telemetry::Span> span = tracer_->Start({.name = telemetry::kDraftServiceSpan,
                                                          .kind = telemetry::SpanKind::kServer,
                                                          .at = advance.arrived,
                                                          .parent = *advance.trace});
  if (span == nullptr) return;
  span->Set(telemetry::kRpcSystem, telemetry::kGrpc);
  span->Set(telemetry::kRpcMethod, telemetry::kProposeMethod);
  if (!model_name_.empty()) span->Set(telemetry::kGenAiModel, model_name_);
  span->Set(telemetry::kQueued, advance.queued());
  span->Set(telemetry::kComputed, advance.computed);
  span->Set(telemetry::kDrafted, int64_t{advance.drafted});
  span->Set(telemetry::kMaxTokens, int64_t{advance.max_draft_tokens});
  if (advance.recalled.looked_for > 0) {
    span->Set(telemetry::kCachedTokens, static_cast<int64_t>(advance.recalled.found));
  }
  span->Set(telemetry::kStatus, transport::StatusName(advance.status));
  if (!advance.drafter.empty()) span->Set(telemetry::kDrafter, advance.drafter);
  // Late, overtaken and closed ones are part of drafting ahead of a target; these are faults.
  if (advance.status == internal::v1::STATUS_INTERNAL ||
      advance.status == internal::v1::STATUS_INVALID) {
    span->Fail(transport::StatusName(advance.status), transport::StatusName(advance.status));
  }
  span->End(advance.ended);
}

}  // namespace tandem::draft_service
