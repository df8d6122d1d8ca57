// The server's end of a bidirectional stream over gRPC's callback API. Its states and rules are
// those of server_write_side.h. A half-close by the client ends reading only.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <utility>

#include "common/transport/server_write_side.h"
#include "common/transport/stream.h"

namespace tandem::transport {

template <typename In, typename Out>
class BidiServerStream final : public ServerWriteSide<grpc::ServerBidiReactor<In, Out>, In, Out> {
 public:
  using ServerWriteSide<grpc::ServerBidiReactor<In, Out>, In, Out>::ServerWriteSide;

  void Begin(const HandlerFactory<In, Out>& factory) {
    this->Start(factory);
    this->StartRead(&incoming_);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) {
      this->Post([](StreamHandler<In>& handler) { handler.OnHalfClose(); });
      return;
    }
    this->Post([message = std::move(incoming_)](StreamHandler<In>& handler) mutable {
      handler.OnMessage(std::move(message));
    });
    incoming_ = In();
    this->StartRead(&incoming_);
  }

  In incoming_;
};

// What a service's method returns for a call.
template <typename In, typename Out>
grpc::ServerBidiReactor<In, Out>* ServeBidi(grpc::CallbackServerContext* context,
                                            StreamOptions options,
                                            const HandlerFactory<In, Out>& factory) {
  auto stream = std::make_shared<BidiServerStream<In, Out>>(context, options);
  stream->Begin(factory);
  return stream.get();
}

}  // namespace tandem::transport
