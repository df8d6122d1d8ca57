#include "target_service/answers/step_trace.h"

#include <memory>
#include <string>

#include "common/concurrency/instant.h"
#include "common/telemetry/attributes.h"
#include "common/transport/status_name.h"

namespace tandem::target_service {
namespace {

using telemetry::Span;
using telemetry::SpanContext;
using telemetry::SpanKind;

void Describe(const Work& work, concurrency::Instant now, Span& span) {
  span.Set(telemetry::kQueued, (work.started() ? work.began : now) - work.arrived);
  span.Set(telemetry::kComputed, work.computed);
  span.Set(telemetry::kCachedTokens, static_cast<int64_t>(work.plan.cached_tokens));
  span.Set(telemetry::kRows, static_cast<int64_t>(work.done));
  span.Set(telemetry::kDrafted, static_cast<int64_t>(work.step.block.size()));
  if (work.step.after.has_value()) span.Set(telemetry::kChained, true);
}

}  // namespace

void StepTrace::PassEnds(const EndedPass& pass) {
  if (tracer_ == nullptr) return;
  links_.clear();
  for (const Work* work : pass.works) {
    if (const auto& trace = work->step.trace; trace.has_value()) links_.push_back(*trace);
  }
  if (links_.empty()) return;
  const std::unique_ptr<Span> span =
      tracer_->Start({telemetry::kPassSpan, SpanKind::kInternal, pass.began, {}, links_});
  if (span == nullptr) return;
  pass_ = {span->context(), pass.id, pass.rows, pass.sequences()};
  if (!model_name_.empty()) span->Set(telemetry::kGenAiModel, model_name_);
  span->Set(telemetry::kPassId, static_cast<int64_t>(pass.id));
  span->Set(telemetry::kPassRows, int64_t{pass.rows});
  span->Set(telemetry::kPassSequences, int64_t{pass.sequences()});
  span->Set(telemetry::kComputed, pass.computed);
  if (!pass.status.ok())
    span->Fail(absl::StatusCodeToString(pass.status.code()), pass.status.message());
  span->End(pass.began + pass.computed);
}

std::unique_ptr<Span> StepTrace::StartStep(concurrency::Instant arrived, const SpanContext& parent,
                                           absl::Span<const SpanContext> links) const {
  auto span = tracer_->Start({telemetry::kStepSpan, SpanKind::kServer, arrived, parent, links});
  if (span == nullptr) return nullptr;
  span->Set(telemetry::kRpcSystem, telemetry::kGrpc);
  span->Set(telemetry::kRpcMethod, telemetry::kVerifyMethod);
  if (!model_name_.empty()) span->Set(telemetry::kGenAiModel, model_name_);
  return span;
}

void StepTrace::StepAnswered(const AnsweredStep& step) {
  if (tracer_ == nullptr || !step.trace.has_value()) return;
  const concurrency::Instant now = clock_.Now();
  const bool by_pass = pass_.context.valid();
  const auto links = absl::MakeConstSpan(&pass_.context, by_pass ? 1 : 0);
  const std::unique_ptr<Span> span = StartStep(step.arrived, *step.trace, links);
  if (span == nullptr) return;
  const internal::v1::Status status = step.verdict.status();
  span->Set(telemetry::kStatus, transport::StatusName(status));
  if (step.work != nullptr) Describe(*step.work, now, *span);
  if (by_pass) {
    span->Set(telemetry::kPassId, static_cast<int64_t>(pass_.id));
    span->Set(telemetry::kPassRows, int64_t{pass_.rows});
    span->Set(telemetry::kPassSequences, int64_t{pass_.sequences});
  }
  // The others are answers that a client knows what to do with. No problem's message: it may name
  // tokens.
  if (status == internal::v1::STATUS_INTERNAL) {
    span->Fail(transport::StatusName(status), transport::StatusName(status));
  }
  span->End(now);
}

void StepTrace::StepDropped(const Work& work) {
  if (tracer_ == nullptr || !work.step.trace.has_value()) return;
  const concurrency::Instant now = clock_.Now();
  const std::unique_ptr<Span> span = StartStep(work.arrived, *work.step.trace, {});
  if (span == nullptr) return;
  Describe(work, now, *span);
  span->Fail("CANCELLED", "its stream ended");
  span->End(now);
}

}  // namespace tandem::target_service
