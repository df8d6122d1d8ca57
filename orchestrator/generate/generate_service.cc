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
#include "common/security/caller_check.h"
#include "common/transport/grpc_status.h"
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
class GenerateService::Handler final : public transport::StreamHandler<v1::GenerateRequest> {
 public:
  Handler(GenerateService& service, CallContext context, std::shared_ptr<GenerateCall::Sink> sink)
      : service_(service), context_(std::move(context)), sink_(std::move(sink)) {
    ++service_.open_calls_;
  }

  void OnMessage(v1::GenerateRequest request) override {
    call_ = service_.generator_.Generate(std::move(request), std::move(context_), sink_);
  }
  void OnWritten(size_t /*queued*/) override {
    if (call_ != nullptr) call_->OnWritten();
  }
  void OnDone(absl::Status status) override {
    --service_.open_calls_;
    if (call_ != nullptr) call_->OnStreamOver(std::move(status));
  }

 private:
  GenerateService& service_;
  CallContext context_;
  const std::shared_ptr<GenerateCall::Sink> sink_;
  std::shared_ptr<GenerateCall> call_;  // null until the request has come
};

GenerateService::GenerateService(Generator& generator, const concurrency::Clock& clock,
                                 security::BearerTokens* tokens)
    : generator_(generator), clock_(clock), tokens_(tokens) {}

grpc::ServerWriteReactor<v1::GenerateReply>* GenerateService::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  CallContext ours;
  ours.caller = security::CheckCaller(*context, "Generate", tokens_);
  ours.traceparent = Traceparent(*context);
  const absl::Duration left = TimeLeft(*context);
  if (left != absl::InfiniteDuration()) ours.deadline = clock_.Now() + left;
  return transport::ServeReplies<v1::GenerateRequest, v1::GenerateReply>(
      context, *request, kReplies, [this, &ours](std::shared_ptr<GenerateCall::Sink> sink) {
        return std::make_unique<Handler>(*this, std::move(ours), std::move(sink));
      });
}

grpc::ServerUnaryReactor* GenerateService::Describe(grpc::CallbackServerContext* context,
                                                    const v1::DescribeRequest* request,
                                                    v1::DescribeReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  // It names the peers: not for everybody either.
  absl::Status status = security::CheckCaller(*context, "Describe", tokens_);
  if (status.ok()) status = generator_.Describe(*request, *reply);
  reactor->Finish(transport::ToGrpc(status));
  return reactor;
}

}  // namespace tandem::orchestrator
