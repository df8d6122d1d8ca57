#include "tests/integration/target_relay.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/transport/channel.h"
#include "common/transport/client_stream.h"
#include "common/transport/server_stream.h"
#include "tandem/internal/v1/target.grpc.pb.h"

namespace tandem::testing {
namespace {

using ToTarget = transport::Sink<internal::v1::TargetRequest>;
using ToClient = transport::Sink<internal::v1::TargetReply>;

// The target's answers, on their way back.
class Backward final : public transport::StreamHandler<internal::v1::TargetReply> {
 public:
  explicit Backward(std::shared_ptr<ToClient> client) : client_(std::move(client)) {}
  void OnMessage(internal::v1::TargetReply reply) override { client_->Send(std::move(reply)); }
  void OnDone(absl::Status status) override { client_->Close(std::move(status)); }

 private:
  const std::shared_ptr<ToClient> client_;
};

class Forward final : public transport::StreamHandler<internal::v1::TargetRequest> {
 public:
  Forward(std::shared_ptr<ToTarget> target, std::shared_ptr<ToClient> client,
          const TargetRelay::Answer& answer)
      : target_(std::move(target)), client_(std::move(client)), answer_(answer) {}

  void OnMessage(internal::v1::TargetRequest request) override {
    internal::v1::TargetReply reply;
    if (request.has_batch()) {
      google::protobuf::RepeatedPtrField<internal::v1::Step> steps;
      steps.Swap(request.mutable_batch()->mutable_steps());
      for (internal::v1::Step& step : steps) {
        if (std::optional<internal::v1::Verdict> verdict = answer_(step)) {
          *reply.mutable_verdicts()->add_verdicts() = *std::move(verdict);
        } else {
          *request.mutable_batch()->add_steps() = std::move(step);
        }
      }
    }
    target_->Send(std::move(request));
    if (reply.has_verdicts()) client_->Send(std::move(reply));
  }
  void OnHalfClose() override { target_->Close(absl::OkStatus()); }
  void OnDone(absl::Status /*status*/) override {
    target_->Close(absl::CancelledError("the client is gone"));
  }

 private:
  const std::shared_ptr<ToTarget> target_;
  const std::shared_ptr<ToClient> client_;
  const TargetRelay::Answer& answer_;
};

}  // namespace

class TargetRelay::Service final : public internal::v1::Target::CallbackService {
 public:
  Service(const std::string& target, Answer answer)
      : stub_(internal::v1::Target::NewStub(transport::MakeChannel(target))),
        answer_(std::move(answer)) {}

  grpc::ServerBidiReactor<internal::v1::TargetRequest, internal::v1::TargetReply>* Verify(
      grpc::CallbackServerContext* call) override {
    return transport::ServeBidi<internal::v1::TargetRequest, internal::v1::TargetReply>(
        call, {}, [this](std::shared_ptr<ToClient> client) {
          auto target = transport::OpenBidi<internal::v1::TargetRequest, internal::v1::TargetReply>(
              [stub = stub_](auto* context, auto* reactor) {
                stub->async()->Verify(context, reactor);
              },
              {}, std::make_unique<Backward>(client));
          return std::make_unique<Forward>(std::move(target), std::move(client), answer_);
        });
  }

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* call,
                                     const v1::DescribeRequest* request,
                                     v1::DescribeReply* reply) override {
    auto* reactor = call->DefaultReactor();
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
    reactor->Finish(stub_->Describe(&context, *request, reply));
    return reactor;
  }

 private:
  const std::shared_ptr<internal::v1::Target::Stub> stub_;
  const Answer answer_;
};

TargetRelay::TargetRelay(const std::string& target, Answer answer)
    : service_(std::make_unique<Service>(target, std::move(answer))) {
  transport::ServerHostOptions options;
  options.listen_address = "127.0.0.1:0";
  options.services = {service_.get()};
  auto host = transport::ServerHost::Start(std::move(options));
  TANDEM_CHECK_OK(host);
  host_ = *std::move(host);
  host_->SetReady(true);
}

TargetRelay::~TargetRelay() { host_ = nullptr; }

std::string TargetRelay::address() const { return absl::StrCat("127.0.0.1:", host_->port()); }

internal::v1::Verdict Refuse(const internal::v1::Step& step, internal::v1::Status status,
                             const std::string& field) {
  internal::v1::Verdict verdict;
  verdict.set_sequence(step.sequence());
  verdict.set_round(step.round());
  verdict.set_status(status);
  verdict.mutable_problem()->set_message("provoked by a test");
  verdict.mutable_problem()->set_field(field);
  return verdict;
}

}  // namespace tandem::testing
