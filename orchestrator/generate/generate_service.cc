#include "orchestrator/generate/generate_service.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/messages/parse.h"
#include "common/security/caller_check.h"
#include "common/telemetry/attributes.h"
#include "common/transport/received.h"
#include "common/transport/reply_stream.h"
#include "orchestrator/generate/answer_reader.h"
#include "orchestrator/generate/error_details.h"
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

// Empty: there is none.
std::string Metadata(const grpc::CallbackServerContext& context, const char* name) {
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find(name);
  return it == metadata.end() ? "" : std::string(it->second.data(), it->second.size());
}

// All values of the name, joined by commas, as a header may be split.
std::string AllMetadata(const grpc::CallbackServerContext& context, const char* name) {
  const auto [begin, end] = context.client_metadata().equal_range(name);
  return absl::StrJoin(begin, end, ",", [](std::string* out, const auto& entry) {
    out->append(entry.second.data(), entry.second.size());
  });
}

// The bytes of a request as a message. `memory` is what it takes of `unchecked`.
absl::Status ParseWithin(transport::ByteBudget& unchecked, const std::string& client,
                         const grpc::ByteBuffer& message, google::protobuf::Message& request,
                         std::shared_ptr<const void>& memory) {
  return transport::WithBytes(message, [&](absl::string_view bytes) -> absl::Status {
    TANDEM_ASSIGN_OR_RETURN(const size_t parsed, messages::ParsedBytes(bytes, request));
    TANDEM_ASSIGN_OR_RETURN(memory, unchecked.Take(client, parsed));
    return messages::Parse(bytes, request);
  });
}

// What the Generator takes. This thread also carries the rounds of others, so a message that takes
// long is parsed later, in its turn. The context is refused if the message cannot be taken.
template <typename Request>
Unparsed<Request> Unparse(transport::ByteBudget& unchecked, grpc::ByteBuffer message,
                          CallContext& context) {
  if (message.Length() > kMaxRequestBytes) {
    context.refused = absl::InvalidArgumentError(absl::StrCat("the request has ", message.Length(),
                                                              " bytes, and at most ",
                                                              kMaxRequestBytes, " are served"));
    return {};
  }
  if (message.Length() <= kLongRequest) {
    Request request;
    context.refused = ParseWithin(unchecked, context.client, message, request, context.memory);
    return Parsed(std::move(request));
  }
  absl::StatusOr<transport::ByteBudget::Hold> hold =
      unchecked.Take(context.client, message.Length());
  context.refused = hold.status();
  if (!hold.ok()) return {};
  Unparsed<Request> request;
  request.bytes = message.Length();
  request.parse = [message, hold = *std::move(hold), client = context.client, &unchecked](
                      Request& to, std::shared_ptr<const void>& memory) mutable {
    absl::Status parsed = ParseWithin(unchecked, client, message, to, memory);
    message.Clear();
    hold = nullptr;
    return parsed;
  };
  return request;
}

// What the transport sees of a call with one answer, which the Generator gives when it can.
template <typename Request, typename Reply>
class AnswerHandler final : public transport::StreamHandler<grpc::ByteBuffer> {
 public:
  using Sink = transport::Sink<Reply>;
  using Done = std::function<void(absl::StatusOr<Reply>)>;
  using Ask = void (Generator::*)(Unparsed<Request> request, CallContext context, Done done);

  AnswerHandler(Generator& generator, Ask ask, transport::ByteBudget& unchecked,
                CallContext context, std::shared_ptr<Sink> sink)
      : generator_(generator),
        ask_(ask),
        unchecked_(unchecked),
        context_(std::move(context)),
        sink_(std::move(sink)),
        reader_(std::make_shared<AnswerReader>(
            generator.parts(), [weak = std::weak_ptr<Sink>(sink_)](absl::Status status) {
              if (const auto sink = weak.lock()) sink->Abort(std::move(status));
            })) {
    if (context_.refused.ok()) context_.refused = reader_->Admit();
    if (!context_.refused.ok()) Refuse(*sink_, context_.refused);
  }

  void OnMessage(grpc::ByteBuffer message) override {
    Unparsed<Request> request = Unparse<Request>(unchecked_, std::move(message), context_);
    (generator_.*ask_)(std::move(request), std::move(context_),
                       [sink = sink_, reader = reader_](absl::StatusOr<Reply> reply) {
                         if (!reply.ok()) return Refuse(*sink, reply.status());
                         reader->OnAnswer(reply->SpaceUsedLong());
                         sink->Send(*std::move(reply));
                         sink->Close(absl::OkStatus());
                       });
  }
  void OnDone(absl::Status /*status*/) override { reader_->OnOver(); }

 private:
  static void Refuse(Sink& sink, absl::Status status) {
    sink.Close(WithDetails(std::move(status), *Request::descriptor()));
  }

  Generator& generator_;
  const Ask ask_;
  transport::ByteBudget& unchecked_;
  CallContext context_;
  const std::shared_ptr<Sink> sink_;
  const std::shared_ptr<AnswerReader> reader_;
};

}  // namespace

// What the transport sees of one call.
class GenerateService::Handler final : public transport::StreamHandler<grpc::ByteBuffer> {
 public:
  Handler(GenerateService& service, CallContext context, std::shared_ptr<GenerateCall::Sink> sink)
      : service_(service), context_(std::move(context)), sink_(std::move(sink)) {
    ++service_.open_calls_;
    if (!context_.refused.ok()) Begin({});
  }

  void OnMessage(grpc::ByteBuffer message) override {
    Begin(Unparse<v1::GenerateRequest>(service_.unchecked_, message, context_));
  }
  void OnWritten(size_t /*queued*/) override {
    if (call_ != nullptr) call_->OnWritten();
  }
  void OnDone(absl::Status status) override {
    --service_.open_calls_;
    if (call_ != nullptr) call_->OnStreamOver(std::move(status));
  }

 private:
  void Begin(Unparsed<v1::GenerateRequest> request) {
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
  Serve<v1::ListModelsReply>(
      "/tandem.v1.Generation/ListModels",
      [this](grpc::CallbackServerContext* context) { return ListModels(context); });
  Serve<v1::TokenizeReply>("/tandem.v1.Generation/Tokenize",
                           [this](grpc::CallbackServerContext* context) {
                             return Answer("Tokenize", context, &Generator::Tokenize);
                           });
  Serve<v1::DetokenizeReply>("/tandem.v1.Generation/Detokenize",
                             [this](grpc::CallbackServerContext* context) {
                               return Answer("Detokenize", context, &Generator::Detokenize);
                             });
}

CallContext GenerateService::Context(absl::string_view method,
                                     const grpc::CallbackServerContext& context) const {
  CallContext ours;
  ours.refused = security::CheckCaller(context, method, tokens_);
  ours.traceparent = Metadata(context, "traceparent");
  ours.tracestate = AllMetadata(context, "tracestate");
  ours.request_id = Metadata(context, "x-request-id");
  ours.client = context.peer();
  const absl::Duration left = TimeLeft(context);
  if (left != absl::InfiniteDuration()) ours.deadline = clock_.Now() + left;
  return ours;
}

transport::RawService::Reactor<v1::GenerateReply>* GenerateService::Generate(
    grpc::CallbackServerContext* context) {
  CallContext ours = Context("Generate", *context);
  const grpc::string_ref authority = context->ExperimentalGetAuthority();
  ours.front.rpc = telemetry::kGenerateMethod;
  ours.front.server = std::string(authority.data(), authority.size());
  return transport::ServeReplies<grpc::ByteBuffer, v1::GenerateReply>(
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
        return WithDetails(generator_.Describe(request, reply), *request.GetDescriptor());
      });
}

transport::RawService::Reactor<v1::ListModelsReply>* GenerateService::ListModels(
    grpc::CallbackServerContext* context) {
  return transport::ServeAnswer<v1::ListModelsRequest, v1::ListModelsReply>(
      context, security::CheckCaller(*context, "ListModels", tokens_),
      [this](const v1::ListModelsRequest& request, v1::ListModelsReply& reply) {
        return WithDetails(generator_.ListModels(request, reply), *request.GetDescriptor());
      });
}

template <typename Request, typename Reply>
transport::RawService::Reactor<Reply>* GenerateService::Answer(
    absl::string_view method, grpc::CallbackServerContext* context,
    void (Generator::*ask)(Unparsed<Request>, CallContext,
                           std::function<void(absl::StatusOr<Reply>)>)) {
  CallContext ours = Context(method, *context);
  return transport::ServeReplies<grpc::ByteBuffer, Reply>(
      context, kReplies, [this, ask, &ours](std::shared_ptr<transport::Sink<Reply>> sink) {
        return std::make_unique<AnswerHandler<Request, Reply>>(generator_, ask, unchecked_,
                                                               std::move(ours), std::move(sink));
      });
}

}  // namespace tandem::orchestrator
