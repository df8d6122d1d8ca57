#include "client/common/questions.h"

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "common/transport/grpc_status.h"

namespace tandem::client {
namespace {

using Stub = v1::Generation::StubInterface;

constexpr std::chrono::seconds kPatience{10};

template <typename Request, typename Reply>
absl::StatusOr<Reply> Ask(Stub& stub,
                          grpc::Status (Stub::*call)(grpc::ClientContext*, const Request&, Reply*),
                          const Request& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  Reply reply;
  const grpc::Status status = (stub.*call)(&context, request, &reply);
  if (!status.ok()) return transport::FromGrpc(status);
  return reply;
}

}  // namespace

absl::StatusOr<v1::DescribeReply> Describe(v1::Generation::StubInterface& stub) {
  return Ask(stub, &Stub::Describe, v1::DescribeRequest());
}

absl::StatusOr<v1::ListModelsReply> ListModels(v1::Generation::StubInterface& stub) {
  return Ask(stub, &Stub::ListModels, v1::ListModelsRequest());
}

absl::StatusOr<v1::TokenizeReply> Tokenize(v1::Generation::StubInterface& stub,
                                           const v1::TokenizeRequest& request) {
  return Ask(stub, &Stub::Tokenize, request);
}

absl::StatusOr<v1::DetokenizeReply> Detokenize(v1::Generation::StubInterface& stub,
                                               const v1::DetokenizeRequest& request) {
  return Ask(stub, &Stub::Detokenize, request);
}

}  // namespace tandem::client
