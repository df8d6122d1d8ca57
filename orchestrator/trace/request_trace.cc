#include "orchestrator/trace/request_trace.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/acceptance/rule.h"
#include "common/concurrency/instant.h"
#include "common/sampling/parameters.h"
#include "common/telemetry/attributes.h"
#include "orchestrator/openai/error.h"
#include "orchestrator/request/ending.h"
#include "orchestrator/trace/round_trace.h"
#include "orchestrator/trace/server_address.h"

namespace tandem::orchestrator {
namespace {

// The fault of a request is between the client and us: it may quote the request.
std::string Failure(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? absl::StatusCodeToString(status.code())
                                         : status.ToString();
}

constexpr uint64_t kMaxInt = std::numeric_limits<int64_t>::max();  // of an attribute

void DescribeCall(const CallFront& front, const std::string& model, telemetry::Span& span) {
  span.Set(telemetry::kGenAiOperation, front.is_chat ? "chat" : "text_completion");
  span.Set(telemetry::kGenAiProvider, telemetry::kProvider);
  span.Set(telemetry::kGenAiModel, model);
  span.Set(telemetry::kGenAiOutput, "text");
  if (!front.rpc.empty()) {
    span.Set(telemetry::kRpcSystem, telemetry::kGrpc);
    span.Set(telemetry::kRpcMethod, front.rpc);
  }
  if (!front.route.empty()) {
    span.Set(telemetry::kHttpMethod, "POST");
    span.Set(telemetry::kHttpRoute, front.route);
    span.Set(telemetry::kHttpVersion, "1.1");
    span.Set(telemetry::kUrlPath, front.route);
    span.Set(telemetry::kUrlScheme, front.encrypted ? "https" : "http");
  }
  SetServer(front.server, span);
}

void DescribeRequest(const GenerationRequest& request, telemetry::Span& span) {
  if (request.is_chat) span.Set(telemetry::kGenAiOperation, "chat");  // known by its message alone
  span.Set(telemetry::kRequestId, request.id);
  if (!request.user.empty()) span.Set(telemetry::kUser, request.user);
  span.Set(telemetry::kRule, acceptance::Name(request.rule));
  span.Set(telemetry::kPromptTokens, int64_t{request.prompt_tokens()});
  span.Set(telemetry::kSamples, int64_t{request.samples});

  const sampling::SamplingParameters& sampling = request.sampling;
  if (request.samples != 1) span.Set(telemetry::kGenAiChoices, int64_t{request.samples});
  span.Set(telemetry::kGenAiMaxTokens, int64_t{request.max_tokens});
  span.Set(telemetry::kGenAiTemperature, sampling.temperature);
  span.Set(telemetry::kGenAiTopP, sampling.top_p);
  if (sampling.top_k != 0) span.Set(telemetry::kGenAiTopK, static_cast<double>(sampling.top_k));
  span.Set(telemetry::kGenAiFrequencyPenalty, sampling.frequency_penalty);
  span.Set(telemetry::kGenAiPresencePenalty, sampling.presence_penalty);
  if (request.seed <= kMaxInt) {
    span.Set(telemetry::kGenAiSeed, static_cast<int64_t>(request.seed));
  }
  span.Set(telemetry::kGenAiInputTokens, int64_t{request.prompt_tokens()});
}

class RequestTrace final : public RequestObserver {
 public:
  RequestTrace(telemetry::Tracer& tracer, std::unique_ptr<telemetry::Span> span, CallFront front)
      : tracer_(tracer), span_(std::move(span)), front_(std::move(front)) {}

  std::string trace_id() const override { return telemetry::TraceIdHex(span_->context()); }

  void OnAccepted(concurrency::Instant /*at*/, const GenerationRequest& request) override {
    rule_ = request.rule;
    span_->Set(telemetry::kGenAiStream, front_.is_stream);
    DescribeRequest(request, *span_);
  }

  void OnAdmitted(concurrency::Instant at, const v1::Started& started) override {
    admitted_ = true;
    span_->Set(telemetry::kGenAiResponseId, started.request_id());
    span_->Set(telemetry::kGenAiResponseModel, started.target_model_id());
    span_->Event(telemetry::kAdmittedEvent, at);
  }

  std::unique_ptr<RoundObserver> WatchSample(uint32_t sample_index) override {
    return std::make_unique<RoundTrace>(tracer_, span_->context(), rule_, sample_index);
  }

  void OnEnded(const RequestEnd& end) override {
    if (!end.endings.empty()) {
      int64_t output_tokens = 0;
      int64_t cached_tokens = 0;
      for (const Ending& ending : end.endings) {
        output_tokens += ending.output_tokens - end.request->output_prefix.size();
        cached_tokens += static_cast<int64_t>(ending.counts.cached_tokens);
      }
      // Several samples, and what was sent again, may have more of them than the prompt has.
      const int64_t prompt_tokens = end.request->prompt_tokens();
      span_->Set(telemetry::kGenAiCachedTokens, std::min(cached_tokens, prompt_tokens));
      span_->Set(telemetry::kOutputTokens, output_tokens);
      span_->Set(telemetry::kGenAiOutputTokens, output_tokens);
    }
    SetStatus(end.status);
    if (end.status.ok()) {
      std::vector<absl::string_view> reasons;
      for (const Ending& ending : end.endings) reasons.push_back(Reason(ending));
      span_->Set(telemetry::kFinish, reasons.front());  // of sample 0, as in Last
      span_->SetList(telemetry::kGenAiFinishReasons, reasons);
    } else {
      span_->Fail(absl::StatusCodeToString(end.status.code()), Failure(end.status));
    }
    span_->End(end.at);
  }

 private:
  static absl::string_view Reason(const Ending& ending) {
    return ending.finish == Finish::kStop ? "stop" : "length";
  }

  // What the caller is told. Over HTTP: nothing, if it is gone before the answer has begun.
  void SetStatus(const absl::Status& status) {
    if (!front_.rpc.empty()) {
      const std::string code = absl::StatusCodeToString(status.code());
      span_->Set(telemetry::kRpcStatus, code);
    }
    if (front_.route.empty()) return;
    const bool begun = admitted_ && front_.is_stream;
    if (!begun && absl::IsCancelled(status)) return;
    const int code = begun || status.ok() ? 200 : ToApiError(status).code;
    span_->Set(telemetry::kHttpStatus, int64_t{code});
  }

  telemetry::Tracer& tracer_;
  const std::unique_ptr<telemetry::Span> span_;
  const CallFront front_;
  bool admitted_ = false;
  acceptance::Rule rule_ = acceptance::Rule::kGreedy;
};

}  // namespace

WatchRequest TraceRequests(telemetry::Tracer& tracer, std::string model) {
  return [&tracer,
          model = std::move(model)](const Arrival& arrival) -> std::unique_ptr<RequestObserver> {
    telemetry::SpanStart start;
    start.name = telemetry::kGenerateSpan;
    start.kind = telemetry::SpanKind::kServer;
    start.at = arrival.at;
    if (const auto parent = telemetry::ParseTraceparent(arrival.traceparent)) {
      start.parent = *parent;
      start.parent.trace_state = telemetry::ParseTracestate(arrival.tracestate);
    }
    std::unique_ptr<telemetry::Span> span = tracer.Start(start);
    if (span == nullptr) return nullptr;
    // A request that is refused has an id, too, if its client gave it one.
    if (!arrival.request_id.empty()) span->Set(telemetry::kRequestId, arrival.request_id);
    DescribeCall(arrival.front, model, *span);
    return std::make_unique<RequestTrace>(tracer, std::move(span), arrival.front);
  };
}

}  // namespace tandem::orchestrator
