// The server's end of a call with one request and a stream of replies. The same states and rules as
// server_stream.h; the handler gets the request by OnMessage, once, and then OnHalfClose.
#pragma once

#include <memory>
#include <utility>

#include "common/transport/server_stream.h"

namespace tandem::transport {

template <typename In, typename Out>
class ReplyStream final : public grpc::ServerWriteReactor<Out>,
                          public ServerWriteSide<ReplyStream<In, Out>, Out>,
                          public std::enable_shared_from_this<ReplyStream<In, Out>> {
 public:
  ReplyStream(grpc::CallbackServerContext* context, StreamOptions options)
      : ServerWriteSide<ReplyStream, Out>(context, options) {}

  void Begin(In request, const HandlerFactory<In, Out>& factory) {
    self_ = this->shared_from_this();
    strand_.Post([this, &factory] { handler_ = factory(self_); });
    this->BeginWrites();
    Post([request = std::move(request)](StreamHandler<In>& handler) mutable {
      handler.OnMessage(std::move(request));
      handler.OnHalfClose();
    });
  }

 private:
  void OnWriteDone(bool ok) override {
    const size_t still_queued = this->WriteDone();
    const auto self = this->shared_from_this();
    if (!ok) return this->Break();
    Post([still_queued](StreamHandler<In>& handler) { handler.OnWritten(still_queued); });
    this->Pump();
  }

  void OnCancel() override {
    this->SeeEarlierReactions();
    const auto self = this->shared_from_this();
    this->Break();
  }

  void OnDone() override {
    this->SeeEarlierReactions();
    auto self = std::move(self_);
    strand_.Post([self] {
      self->handler_->OnDone(self->EndStatus());
      self->handler_.reset();
    });
  }

  template <typename Call>
  void Post(Call call) {
    strand_.Post([self = this->shared_from_this(), call = std::move(call)]() mutable {
      if (self->handler_ != nullptr) call(*self->handler_);
    });
  }

  concurrency::SerialExecutor strand_;
  std::unique_ptr<StreamHandler<In>> handler_;  // touched on the strand only
  std::shared_ptr<ReplyStream> self_;           // until OnDone
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
