#include "orchestrator/peers/links.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstddef>
#include <utility>

#include "common/transport/client_stream.h"
#include "common/transport/grpc_status.h"
#include "tandem/internal/v1/draft.grpc.pb.h"
#include "tandem/internal/v1/target.grpc.pb.h"

namespace tandem::orchestrator {
namespace {

constexpr std::chrono::seconds kDescribeWithin(5);

// To our own peers. When a draft comes back, all requests send it their prompts at once.
constexpr transport::StreamOptions kToPeer = {.max_queued_bytes = size_t{256} << 20};

// One question under way; frees itself with the answer.
struct Question {
  grpc::ClientContext context;
  v1::DescribeRequest request;
  v1::DescribeReply reply;
};

template <typename Service>
DescribePeer Describe(std::shared_ptr<grpc::Channel> channel) {
  std::shared_ptr<typename Service::Stub> stub = Service::NewStub(channel);
  return [stub](const v1::DescribeRequest& request,
                std::function<void(absl::StatusOr<v1::DescribeReply>)> answer) {
    auto question = std::make_shared<Question>();
    question->request = request;
    question->context.set_deadline(std::chrono::system_clock::now() + kDescribeWithin);
    stub->async()->Describe(&question->context, &question->request, &question->reply,
                            [question, answer = std::move(answer), stub](grpc::Status status) {
                              if (!status.ok()) return answer(transport::FromGrpc(status));
                              answer(std::move(question->reply));
                            });
  };
}

}  // namespace

OpenStream<internal::v1::TargetRequest, internal::v1::TargetReply> TargetStreams(
    std::shared_ptr<grpc::Channel> channel) {
  std::shared_ptr<internal::v1::Target::Stub> stub = internal::v1::Target::NewStub(channel);
  return [stub](std::unique_ptr<transport::StreamHandler<internal::v1::TargetReply>> handler) {
    return transport::OpenBidi<internal::v1::TargetRequest, internal::v1::TargetReply>(
        [stub](auto* context, auto* reactor) { stub->async()->Verify(context, reactor); }, kToPeer,
        std::move(handler));
  };
}

OpenStream<internal::v1::DraftRequest, internal::v1::DraftReply> DraftStreams(
    std::shared_ptr<grpc::Channel> channel) {
  std::shared_ptr<internal::v1::Draft::Stub> stub = internal::v1::Draft::NewStub(channel);
  return [stub](std::unique_ptr<transport::StreamHandler<internal::v1::DraftReply>> handler) {
    return transport::OpenBidi<internal::v1::DraftRequest, internal::v1::DraftReply>(
        [stub](auto* context, auto* reactor) { stub->async()->Propose(context, reactor); }, kToPeer,
        std::move(handler));
  };
}

DescribePeer DescribeTarget(std::shared_ptr<grpc::Channel> channel) {
  return Describe<internal::v1::Target>(std::move(channel));
}

DescribePeer DescribeDraft(std::shared_ptr<grpc::Channel> channel) {
  return Describe<internal::v1::Draft>(std::move(channel));
}

}  // namespace tandem::orchestrator
