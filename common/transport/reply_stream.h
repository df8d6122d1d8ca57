// The server's end of a call with one request and a stream of replies. Its states and rules are
// those of server_write_side.h. The handler gets the request by OnMessage, once, and then
// OnHalfClose.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <utility>

#include "common/transport/server_write_side.h"
#include "common/transport/stream.h"

namespace tandem::transport {

template <typename In, typename Out>
class ReplyStream final : public ServerWriteSide<grpc::ServerWriteReactor<Out>, In, Out> {
 public:
  using ServerWriteSide<grpc::ServerWriteReactor<Out>, In, Out>::ServerWriteSide;

  void Begin(In request, const HandlerFactory<In, Out>& factory) {
    this->Start(factory);
    this->Post([request = std::move(request)](StreamHandler<In>& handler) mutable {
      handler.OnMessage(std::move(request));
      handler.OnHalfClose();
    });
  }
};

// What a service's method returns for a call. The request is copied: gRPC's own dies with the
// method.
template <typename In, typename Out>
grpc::ServerWriteReactor<Out>* ServeReplies(grpc::CallbackServerContext* context, const In& request,
                                            StreamOptions options,
                                            const HandlerFactory<In, Out>& factory) {
  auto stream = std::make_shared<ReplyStream<In, Out>>(context, options);
  grpc::ServerWriteReactor<Out>* reactor = stream.get();
  stream->Begin(request, factory);
  return reactor;
}

}  // namespace tandem::transport
