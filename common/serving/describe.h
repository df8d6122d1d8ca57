// The call Describe of a service.
#pragma once

#include <cstdint>
#include <functional>

#include "tandem/v1/tokens.pb.h"

namespace grpc {
class CallbackServerContext;
class ServerUnaryReactor;
}  // namespace grpc

namespace tandem::serving {

// Answers it at once. The status and what is refused: messages::FillDescription. Thread-safe.
grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext& call,
                                   const v1::DescribeRequest& request, const v1::Welcome& welcome,
                                   const std::function<uint32_t(uint32_t token)>& token_hash,
                                   v1::Load load, v1::DescribeReply& reply);

}  // namespace tandem::serving
