// The server's end of a call with one request and a stream of replies, for a method of a
// RawService. Its states and rules are those of server_write_side.h. The handler gets the request
// by OnMessage, once, and then OnHalfClose. A handler that closes its sink when it is made refuses
// the call: then the request is not read. A request that cannot be parsed ends the call.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "common/transport/received.h"
#include "common/transport/server_write_side.h"
#include "common/transport/stream.h"

namespace tandem::transport {

template <typename In, typename Out>
class ReplyStream final
    : public ServerWriteSide<grpc::ServerBidiReactor<grpc::ByteBuffer, Out>, In, Out> {
 public:
  using ServerWriteSide<grpc::ServerBidiReactor<grpc::ByteBuffer, Out>, In, Out>::ServerWriteSide;

  void Begin(const HandlerFactory<In, Out>& factory) {
    this->Start(factory);
    if (this->IsOpen()) this->StartRead(&incoming_);
  }

 private:
  void OnReadDone(bool ok) override {
    this->CountRead(incoming_.Length());
    In request;
    absl::Status status = ok ? Receive(incoming_, request)
                             : absl::InvalidArgumentError("the call came without its request");
    incoming_.Clear();
    if (!status.ok()) {
      this->Close(std::move(status));
      return;
    }
    this->Post([request = std::move(request)](StreamHandler<In>& handler) mutable {
      handler.OnMessage(std::move(request));
      handler.OnHalfClose();
    });
  }

  grpc::ByteBuffer incoming_;
};

// What a method returns for a call.
template <typename In, typename Out>
grpc::ServerBidiReactor<grpc::ByteBuffer, Out>* ServeReplies(
    grpc::CallbackServerContext* context, StreamOptions options,
    const HandlerFactory<In, Out>& factory) {
  auto stream = std::make_shared<ReplyStream<In, Out>>(context, options);
  stream->Begin(factory);
  return stream.get();
}

// A call with one reply. `admitted`: not OK refuses the call before its request is read. `answer`
// fills the reply, or says why there is none; it is called once at most, and must not block.
template <typename In, typename Out>
grpc::ServerBidiReactor<grpc::ByteBuffer, Out>* ServeAnswer(
    grpc::CallbackServerContext* context, absl::Status admitted,
    std::function<absl::Status(const In& request, Out& reply)> answer) {
  class Handler final : public StreamHandler<In> {
   public:
    Handler(std::shared_ptr<Sink<Out>> sink, absl::Status admitted,
            std::function<absl::Status(const In&, Out&)> answer)
        : sink_(std::move(sink)), answer_(std::move(answer)) {
      if (!admitted.ok()) sink_->Close(std::move(admitted));
    }
    void OnMessage(In request) override {
      Out reply;
      absl::Status status = answer_(request, reply);
      if (status.ok()) sink_->Send(std::move(reply));
      sink_->Close(std::move(status));
    }
    void OnDone(absl::Status /*status*/) override {}

   private:
    const std::shared_ptr<Sink<Out>> sink_;
    const std::function<absl::Status(const In&, Out&)> answer_;
  };
  return ServeReplies<In, Out>(context, StreamOptions{}, [&](std::shared_ptr<Sink<Out>> sink) {
    return std::make_unique<Handler>(std::move(sink), std::move(admitted), std::move(answer));
  });
}

}  // namespace tandem::transport
