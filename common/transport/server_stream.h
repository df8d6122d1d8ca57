// The server's end of a bidirectional stream over gRPC's callback API. Its states and rules are
// those of server_write_side.h. A half-close by the client ends reading only. A message that cannot
// be parsed ends the stream.
//
// A connection that breaks ends reading, too, and shows as broken a moment later. A service that
// treats the two differently names a time for that: OnHalfClose comes after it, and not at all if
// the call turns out to be broken. If the time is too short on a busy machine, a broken call has
// looked half-closed.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <chrono>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/transport/received.h"
#include "common/transport/server_write_side.h"
#include "common/transport/stream.h"

namespace tandem::transport {

// `Wire`: what gRPC reads; In itself, or bytes that are parsed here.
template <typename In, typename Out, typename Wire = In>
class BidiServerStream final : public ServerWriteSide<grpc::ServerBidiReactor<Wire, Out>, In, Out> {
 public:
  BidiServerStream(grpc::CallbackServerContext* context, StreamOptions options,
                   absl::Duration half_close_settles)
      : ServerWriteSide<grpc::ServerBidiReactor<Wire, Out>, In, Out>(context, options),
        half_close_settles_(half_close_settles) {}

  void Begin(const HandlerFactory<In, Out>& factory) {
    this->Start(factory);
    this->StartRead(&incoming_);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return OnReadsEnd();
    this->CountRead(WireBytes(incoming_));
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

  void OnReadsEnd() {
    // broken() takes the lock, by which ThreadSanitizer sees that OnDone comes later.
    if (this->broken() || half_close_settles_ <= absl::ZeroDuration()) return TellHalfClose();
    half_close_.Set(
        std::chrono::system_clock::now() + absl::ToChronoMilliseconds(half_close_settles_),
        [weak = this->weak_from_this()](bool /*fired*/) {
          // It is there while its call lives.
          const auto self = weak.lock();
          if (self != nullptr) static_cast<BidiServerStream&>(*self).TellHalfClose();
        });
  }

  void TellHalfClose() {
    if (this->broken()) return;  // OnDone tells
    this->Post([](StreamHandler<In>& handler) { handler.OnHalfClose(); });
  }

  const absl::Duration half_close_settles_;
  grpc::Alarm half_close_;
  Wire incoming_;
};

// What a service's method returns for a call. `half_close_settles`: see above; zero: at once.
template <typename In, typename Out>
grpc::ServerBidiReactor<In, Out>* ServeBidi(grpc::CallbackServerContext* context,
                                            StreamOptions options,
                                            const HandlerFactory<In, Out>& factory,
                                            absl::Duration half_close_settles = {}) {
  auto stream = std::make_shared<BidiServerStream<In, Out>>(context, options, half_close_settles);
  stream->Begin(factory);
  return stream.get();
}

// The same, for a method of a RawService.
template <typename In, typename Out>
grpc::ServerBidiReactor<grpc::ByteBuffer, Out>* ServeRawBidi(
    grpc::CallbackServerContext* context, StreamOptions options,
    const HandlerFactory<In, Out>& factory, absl::Duration half_close_settles = {}) {
  auto stream = std::make_shared<BidiServerStream<In, Out, grpc::ByteBuffer>>(context, options,
                                                                              half_close_settles);
  stream->Begin(factory);
  return stream.get();
}

}  // namespace tandem::transport
