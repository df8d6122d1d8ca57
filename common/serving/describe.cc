#include "common/serving/describe.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "common/messages/describe.h"
#include "common/transport/grpc_status.h"

namespace tandem::serving {

grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext& call,
                                   const v1::DescribeRequest& request, const v1::Welcome& welcome,
                                   const std::function<uint32_t(uint32_t token)>& token_hash,
                                   v1::Load load, v1::DescribeReply& reply) {
  grpc::ServerUnaryReactor* reactor = call.DefaultReactor();
  *reply.mutable_load() = std::move(load);
  reactor->Finish(
      transport::ToGrpc(messages::FillDescription(request, welcome, token_hash, reply)));
  return reactor;
}

}  // namespace tandem::serving
