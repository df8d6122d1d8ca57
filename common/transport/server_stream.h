// The server's end of a bidirectional stream over gRPC's callback API. Its states and rules are
// those of server_write_side.h. A half-close by the client ends reading only. A message that cannot
// be parsed ends the stream.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "common/transport/received.h"
#include "common/transport/server_write_side.h"
#include "common/transport/stream.h"

namespace tandem::transport {

// `Wire`: what gRPC reads; In itself, or bytes that are parsed here.
template <typename In, typename Out, typename Wire = In>
class BidiServerStream final : public ServerWriteSide<grpc::ServerBidiReactor<Wire, Out>, In, Out> {
 public:
  using ServerWriteSide<grpc::ServerBidiReactor<Wire, Out>, In, Out>::ServerWriteSide;

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
    In message;
    if constexpr (std::is_same_v<Wire, In>) {
      message = std::move(incoming_);
    } else if (absl::Status status = Receive(incoming_, message); !status.ok()) {
      this->Close(std::move(status));
      return;
    }
    incoming_ = Wire();
    this->Post([message = std::move(message)](StreamHandler<In>& handler) mutable {
      handler.OnMessage(std::move(message));
    });
    this->StartRead(&incoming_);
  }

  Wire incoming_;
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

// The same, for a method of a RawService.
template <typename In, typename Out>
grpc::ServerBidiReactor<grpc::ByteBuffer, Out>* ServeRawBidi(
    grpc::CallbackServerContext* context, StreamOptions options,
    const HandlerFactory<In, Out>& factory) {
  auto stream = std::make_shared<BidiServerStream<In, Out, grpc::ByteBuffer>>(context, options);
  stream->Begin(factory);
  return stream.get();
}

}  // namespace tandem::transport
