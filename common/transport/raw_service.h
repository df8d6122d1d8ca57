// A service of gRPC that gets the bytes of its messages.
//
// With the services that are generated, gRPC reads and parses the message of a call before anybody
// sees the call: before it is known who calls, and whatever the message becomes in memory. Here a
// method begins with the metadata alone, and the stream that it returns reads when it wants to, and
// parses within bounds (received.h). On the wire both are the same.
#pragma once

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/codegen/rpc_method.h>
#include <grpcpp/impl/codegen/rpc_service_method.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/codegen/service_type.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <utility>

namespace tandem::transport {

class RawService : public grpc::Service {
 public:
  // `Out`: the message of a reply.
  template <typename Out>
  using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, Out>;

 protected:
  // `name`: a literal, "/tandem.internal.v1.Target/Verify". `serve` makes what serves a call
  // (server_stream.h, reply_stream.h); any thread calls it. Only while the service is made.
  template <typename Out>
  void Serve(const char* name, std::function<Reactor<Out>*(grpc::CallbackServerContext*)> serve) {
    using grpc::internal::RpcMethod;
    using grpc::internal::RpcServiceMethod;
    AddMethod(new RpcServiceMethod(name, RpcMethod::BIDI_STREAMING, nullptr));
    MarkMethodCallback(methods_++, new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, Out>(
                                       std::move(serve)));
  }

 private:
  int methods_ = 0;
};

}  // namespace tandem::transport
