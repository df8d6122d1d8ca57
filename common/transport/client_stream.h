// The client's end of a bidirectional stream over gRPC's callback API.
//
// | state   | takes Send | when it ends                                                           |
// |---------|------------|------------------------------------------------------------------------|
// | open    | yes        | Close(OK) (-> closing); Close(error) or an ended call (-> over)        |
// | closing | no         | the queue is written and half-closed; the server then ends the call    |
// | over    | no         | the write in flight is back; gRPC's OnDone follows                     |
//
// Writes come from any thread, outside gRPC's reactions, so a hold keeps OnDone away until our side
// has nothing more to start: it is released exactly once, after the half-close or, when the call is
// over, once no write is in flight. No call into gRPC or into the handler is made under the lock.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "common/concurrency/mutex.h"
#include "common/concurrency/strand.h"
#include "common/transport/grpc_status.h"
#include "common/transport/stream.h"
#include "common/transport/write_queue.h"

namespace tandem::transport {

// Calls the stub:
//   [stub](auto* context, auto* reactor) { stub->async()->Verify(context, reactor); }
template <typename Out, typename In>
using CallStarter = std::function<void(grpc::ClientContext*, grpc::ClientBidiReactor<Out, In>*)>;

template <typename Out, typename In>
class BidiClientStream final : public grpc::ClientBidiReactor<Out, In>,
                               public Sink<Out>,
                               public std::enable_shared_from_this<BidiClientStream<Out, In>> {
 public:
  explicit BidiClientStream(StreamOptions options) : queue_(options) {}

  void Begin(const CallStarter<Out, In>& start, std::unique_ptr<StreamHandler<In>> handler)
      TANDEM_EXCLUDES(mutex_) {
    self_ = this->shared_from_this();
    handler_ = std::move(handler);
    start(&context_, this);
    this->AddHold();
    this->StartRead(&incoming_);
    this->StartCall();
    {
      concurrency::MutexLock lock(mutex_);
      begun_ = true;
    }
    Pump();
  }

  bool Send(Out message) override TANDEM_EXCLUDES(mutex_) {
    const size_t bytes = WireBytes(message);
    bool full = false;
    {
      concurrency::MutexLock lock(mutex_);
      if (state_ != State::kOpen) return false;
      absl::Status room = queue_.Push(std::move(message), bytes);
      full = !room.ok();
      if (full) overflow_ = std::move(room);
    }
    if (full) {
      Break(/*cancel=*/true);
      return false;
    }
    Pump();
    return true;
  }

  void Close(absl::Status status) override TANDEM_EXCLUDES(mutex_) {
    if (!status.ok()) return Break(/*cancel=*/true);
    {
      concurrency::MutexLock lock(mutex_);
      if (state_ != State::kOpen) return;
      state_ = State::kClosing;
    }
    Pump();
  }

  size_t queued() const override TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    return queue_.size();
  }

 private:
  enum class State { kOpen, kClosing, kOver };

  void OnReadDone(bool ok) override {
    if (!ok) return Break(/*cancel=*/false);
    Post([message = std::move(incoming_)](StreamHandler<In>& handler) mutable {
      handler.OnMessage(std::move(message));
    });
    incoming_ = In();
    this->StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override TANDEM_EXCLUDES(mutex_) {
    size_t still_queued = 0;
    {
      concurrency::MutexLock lock(mutex_);
      outgoing_.reset();
      write_in_flight_ = false;
      still_queued = queue_.size();
    }
    if (!ok) return Break(/*cancel=*/false);
    Post([still_queued](StreamHandler<In>& handler) { handler.OnWritten(still_queued); });
    Pump();
  }

  void OnDone(const grpc::Status& status) override TANDEM_EXCLUDES(mutex_) {
    std::shared_ptr<BidiClientStream> self;
    absl::Status end = FromGrpc(status);
    {
      concurrency::MutexLock lock(mutex_);  // first: ThreadSanitizer does not see gRPC's ordering
      self = std::move(self_);
      state_ = State::kOver;
      if (!overflow_.ok()) end = overflow_;
    }
    strand_.Post([self, end = std::move(end)] {
      self->handler_->OnDone(end);
      self->handler_.reset();
    });
  }

  // The call is over, or is ended here.
  void Break(bool cancel) TANDEM_EXCLUDES(mutex_) {
    {
      concurrency::MutexLock lock(mutex_);
      if (done_ && !cancel) return;
      state_ = State::kOver;
      queue_.Clear();
    }
    if (cancel) context_.TryCancel();
    Pump();
  }

  // Starts the next write or the half-close, or releases the hold, whatever is due.
  void Pump() TANDEM_EXCLUDES(mutex_) {
    enum class Due { kWrite, kHalfClose, kRelease } due;
    {
      concurrency::MutexLock lock(mutex_);
      if (!begun_ || write_in_flight_ || done_) return;
      if (state_ == State::kOver) {
        due = Due::kRelease;
        done_ = true;
      } else if (!queue_.empty()) {
        due = Due::kWrite;
        outgoing_.emplace(queue_.Pop());
        write_in_flight_ = true;
      } else if (state_ == State::kClosing) {
        due = Due::kHalfClose;
        done_ = true;
      } else {
        return;
      }
    }
    // Only one thread gets here at a time: write_in_flight_ or done_ keeps the others out, and the
    // hold keeps the call alive until it is released below.
    if (due == Due::kWrite) return this->StartWrite(&*outgoing_);
    if (due == Due::kHalfClose) this->StartWritesDone();
    this->RemoveHold();
  }

  template <typename Call>
  void Post(Call call) {
    strand_.Post([self = this->shared_from_this(), call = std::move(call)]() mutable {
      if (self->handler_ != nullptr) call(*self->handler_);
    });
  }

  grpc::ClientContext context_;
  concurrency::Strand strand_;
  std::unique_ptr<StreamHandler<In>> handler_;  // touched on the strand only, once begun
  std::shared_ptr<BidiClientStream> self_;      // until OnDone
  In incoming_;
  // The message in flight. It may be large, so it is freed as soon as it is written. Touched by the
  // thread that set write_in_flight_, and by gRPC.
  std::optional<Out> outgoing_;

  mutable concurrency::Mutex mutex_;
  State state_ TANDEM_GUARDED_BY(mutex_) = State::kOpen;
  bool begun_ TANDEM_GUARDED_BY(mutex_) = false;
  bool write_in_flight_ TANDEM_GUARDED_BY(mutex_) = false;
  bool done_ TANDEM_GUARDED_BY(mutex_) = false;      // the hold is released, or about to be
  absl::Status overflow_ TANDEM_GUARDED_BY(mutex_);  // not OK: what was too much
  WriteQueue<Out> queue_ TANDEM_GUARDED_BY(mutex_);
};

// Opens a stream. The handler's OnDone comes exactly once, also where no server is reached.
template <typename Out, typename In>
std::shared_ptr<Sink<Out>> OpenBidi(const CallStarter<Out, In>& start, StreamOptions options,
                                    std::unique_ptr<StreamHandler<In>> handler) {
  auto stream = std::make_shared<BidiClientStream<Out, In>>(options);
  stream->Begin(start, std::move(handler));
  return stream;
}

}  // namespace tandem::transport
