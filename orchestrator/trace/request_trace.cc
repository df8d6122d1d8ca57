#include "orchestrator/trace/request_trace.h"

#include <memory>
#include <string>
#include <utility>

#include "common/acceptance/rule.h"
#include "common/concurrency/instant.h"
#include "common/telemetry/attributes.h"
#include "orchestrator/request/ending.h"
#include "orchestrator/trace/round_trace.h"

namespace tandem::orchestrator {
namespace {

// The fault of a request is between the client and us: it may quote the request.
std::string Failure(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? absl::StatusCodeToString(status.code())
                                         : status.ToString();
}

class RequestTrace final : public RequestObserver {
 public:
  RequestTrace(telemetry::Tracer& tracer, std::unique_ptr<telemetry::Span> span)
      : tracer_(tracer), span_(std::move(span)) {}

  std::string trace_id() const override { return telemetry::TraceIdHex(span_->context()); }

  void OnAccepted(concurrency::Instant /*at*/, const GenerationRequest& request) override {
    rule_ = request.rule;
    span_->Set(telemetry::kRequestId, request.id);
    if (!request.user.empty()) span_->Set(telemetry::kUser, request.user);
    span_->Set(telemetry::kRule, acceptance::Name(request.rule));
    span_->Set(telemetry::kPromptTokens, int64_t{request.prompt_tokens()});
    span_->Set(telemetry::kSamples, int64_t{request.samples});
  }

  void OnAdmitted(concurrency::Instant at, const v1::Started& /*started*/) override {
    span_->Event(telemetry::kAdmittedEvent, at);
  }

  std::unique_ptr<RoundObserver> WatchSample(uint32_t sample_index) override {
    return std::make_unique<RoundTrace>(tracer_, span_->context(), rule_, sample_index);
  }

  void OnEnded(const RequestEnd& end) override {
    if (!end.endings.empty()) {
      int64_t output_tokens = 0;
      for (const Ending& ending : end.endings) {
        output_tokens += ending.output_tokens - end.request->output_prefix.size();
      }
      span_->Set(telemetry::kOutputTokens, output_tokens);
    }
    if (end.status.ok()) {
      const bool stopped = end.endings.front().finish == Finish::kStop;
      span_->Set(telemetry::kFinish, stopped ? "stop" : "length");  // of sample 0, as in Last
    } else {
      span_->Fail(Failure(end.status));
    }
    span_->End(end.at);
  }

 private:
  telemetry::Tracer& tracer_;
  const std::unique_ptr<telemetry::Span> span_;
  acceptance::Rule rule_ = acceptance::Rule::kGreedy;
};

}  // namespace

WatchRequest TraceRequests(telemetry::Tracer& tracer) {
  return [&tracer](const Arrival& arrival) -> std::unique_ptr<RequestObserver> {
    telemetry::SpanStart start;
    start.name = telemetry::kGenerateSpan;
    start.kind = telemetry::SpanKind::kServer;
    start.at = arrival.at;
    if (const auto parent = telemetry::ParseTraceparent(arrival.traceparent)) {
      start.parent = *parent;
    }
    std::unique_ptr<telemetry::Span> span = tracer.Start(start);
    if (span == nullptr) return nullptr;
    // A request that is refused has an id, too, if its client gave it one.
    if (!arrival.request_id.empty()) span->Set(telemetry::kRequestId, arrival.request_id);
    return std::make_unique<RequestTrace>(tracer, std::move(span));
  };
}

}  // namespace tandem::orchestrator
