#include "orchestrator/generate/generate_service.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/messages/parse.h"
#include "common/security/caller_check.h"
#include "common/transport/reply_stream.h"
#include "orchestrator/generate/generator.h"

namespace tandem::orchestrator {
namespace {

// The bytes of all calls together are bounded elsewhere (stream/unread_replies.h).
constexpr transport::StreamOptions kReplies = {.max_queued_bytes =
                                                   std::numeric_limits<size_t>::max()};

// Until the call's deadline; infinite when it has none.
absl::Duration TimeLeft(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  const auto now = std::chrono::system_clock::now();
  if (deadline - now > std::chrono::hours(24 * 365)) return absl::InfiniteDuration();
  return absl::FromChrono(deadline - now);
}

std::string Traceparent(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find("traceparent");
  return it == metadata.end() ? "" : std::string(it->second.data(), it->second.size());
}

}  // namespace

// What the transport sees of one call.
class GenerateService::Handler final : public transport::StreamHandler<std::string> {
 public:
  Handler(GenerateService& service, CallContext context, std::shared_ptr<GenerateCall::Sink> sink)
      : service_(service), context_(std::move(context)), sink_(std::move(sink)) {
    ++service_.open_calls_;
    if (!context_.refused.ok()) Begin({});
  }

  void OnMessage(std::string bytes) override {
    v1::GenerateRequest request;
    context_.refused = Parse(bytes, request);
    Begin(std::move(request));
  }
  void OnWritten(size_t /*queued*/) override {
    if (call_ != nullptr) call_->OnWritten();
  }
  void OnDone(absl::Status status) override {
    --service_.open_calls_;
    if (call_ != nullptr) call_->OnStreamOver(std::move(status));
  }

 private:
  absl::Status Parse(const std::string& bytes, v1::GenerateRequest& request) {
    TANDEM_ASSIGN_OR_RETURN(const size_t parsed, messages::ParsedBytes(bytes, request));
    TANDEM_ASSIGN_OR_RETURN(context_.memory, service_.unchecked_.Take(context_.client, parsed));
    return messages::Parse(bytes, request);
  }
  void Begin(v1::GenerateRequest request) {
    call_ = service_.generator_.Generate(std::move(request), std::move(context_), sink_);
  }

  GenerateService& service_;
  CallContext context_;
  const std::shared_ptr<GenerateCall::Sink> sink_;
  std::shared_ptr<GenerateCall> call_;  // null until the request has come
};

GenerateService::GenerateService(Generator& generator, const concurrency::Clock& clock,
                                 security::BearerTokens* tokens, size_t max_request_bytes)
    : generator_(generator), clock_(clock), tokens_(tokens), unchecked_(max_request_bytes) {
  Serve<v1::GenerateReply>(
      "/tandem.v1.Generation/Generate",
      [this](grpc::CallbackServerContext* context) { return Generate(context); });
  Serve<v1::DescribeReply>(
      "/tandem.v1.Generation/Describe",
      [this](grpc::CallbackServerContext* context) { return Describe(context); });
}

transport::RawService::Reactor<v1::GenerateReply>* GenerateService::Generate(
    grpc::CallbackServerContext* context) {
  CallContext ours;
  ours.refused = security::CheckCaller(*context, "Generate", tokens_);
  ours.traceparent = Traceparent(*context);
  ours.client = context->peer();
  const absl::Duration left = TimeLeft(*context);
  if (left != absl::InfiniteDuration()) ours.deadline = clock_.Now() + left;
  return transport::ServeReplies<std::string, v1::GenerateReply>(
      context, kReplies, [this, &ours](std::shared_ptr<GenerateCall::Sink> sink) {
        return std::make_unique<Handler>(*this, std::move(ours), std::move(sink));
      });
}

transport::RawService::Reactor<v1::DescribeReply>* GenerateService::Describe(
    grpc::CallbackServerContext* context) {
  // It names the peers: not for everybody either.
  return transport::ServeAnswer<v1::DescribeRequest, v1::DescribeReply>(
      context, security::CheckCaller(*context, "Describe", tokens_),
      [this](const v1::DescribeRequest& request, v1::DescribeReply& reply) {
        return generator_.Describe(request, reply);
      });
}

}  // namespace tandem::orchestrator
