// What all streams of a server share, over gRPC's callback API: how they write, and how they end.
//
// | state    | takes Send | when it ends                                                          |
// |----------|------------|-----------------------------------------------------------------------|
// | open     | yes        | Close (-> closing); a full queue, Abort, a cancelled call (-> broken) |
// | closing  | no         | queue written (-> finished); Abort, a cancelled call (-> broken)      |
// | broken   | no         | the write in flight is back (-> finished); what was queued is dropped |
// | finished | no         | Finish was called; OnDone follows, then nothing                       |
//
// gRPC's rules are kept here, so that no session needs to know them: one read and one write are in
// flight; Finish is called once, with no write in flight; a reaction never blocks; nothing is
// called after OnDone. A full queue or Abort cancels the call, because the write in flight may
// never end: its peer does not read. No call into gRPC or into the handler is made under the lock:
// a write in flight keeps Finish, and so OnDone, away.
#pragma once

#include <grpc/grpc.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>
#include <grpcpp/support/status.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "common/concurrency/mutex.h"
#include "common/concurrency/strand.h"
#include "common/transport/connection_watch.h"
#include "common/transport/grpc_status.h"
#include "common/transport/stream.h"
#include "common/transport/write_queue.h"

namespace tandem::transport {

// `Reactor` is gRPC's class: ServerBidiReactor or ServerWriteReactor. The derived class says how
// messages come in. A stream owns itself from Start until gRPC is done with it; sinks may keep it
// longer.
template <typename Reactor, typename In, typename Out>
class ServerWriteSide : public Reactor,
                        public Sink<Out>,
                        public std::enable_shared_from_this<ServerWriteSide<Reactor, In, Out>> {
 public:
  // `context`: the call's, which lives until OnDone.
  ServerWriteSide(grpc::CallbackServerContext* context, StreamOptions options)
      : context_(context), counted_(context->peer()), queue_(options) {}

  bool Send(Out message) override TANDEM_EXCLUDES(mutex_) {
    const size_t bytes = WireBytes(message);
    {
      concurrency::MutexLock lock(mutex_);
      if (state_ != State::kOpen) return false;
      if (absl::Status room = queue_.Push(std::move(message), bytes); !room.ok()) {
        AbortLocked(ToGrpc(room));
      }
    }
    return !CancelIfAborted();
  }

  void Abort(absl::Status status) override TANDEM_EXCLUDES(mutex_) {
    {
      concurrency::MutexLock lock(mutex_);
      if (state_ != State::kOpen && state_ != State::kClosing) return;
      AbortLocked(ToGrpc(status));
    }
    CancelIfAborted();
  }

  void Close(absl::Status status) override TANDEM_EXCLUDES(mutex_) {
    {
      concurrency::MutexLock lock(mutex_);
      if (state_ != State::kOpen) return;
      finish_status_ = ToGrpc(status);
      state_ = State::kClosing;
    }
    Pump();
  }

  size_t queued() const override TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    return queue_.size();
  }

 protected:
  // Makes the handler, and then lets writes begin: what the handler sent meanwhile was queued.
  void Start(const HandlerFactory<In, Out>& factory) TANDEM_EXCLUDES(mutex_) {
    self_ = this->shared_from_this();
    strand_.Post([this, &factory] { handler_ = factory(self_); });
    {
      concurrency::MutexLock lock(mutex_);
      begun_ = true;
    }
    Pump();
  }

  // A message of so many bytes was read.
  void CountRead(size_t bytes) { counted_.CountMessage(bytes); }

  // Whether nobody has closed it.
  bool IsOpen() const TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    return state_ == State::kOpen;
  }

  // The strand gives the handler its calls one at a time; a call that finds the strand busy only
  // queues, so no gRPC thread waits. Each task holds the stream.
  template <typename Call>
  void Post(Call call) {
    strand_.Post([self = this->shared_from_this(), call = std::move(call)]() mutable {
      if (self->handler_ != nullptr) call(*self->handler_);
    });
  }

  // The call was cancelled, or its connection is gone.
  bool broken() const TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    return broken_;
  }

 private:
  enum class State { kOpen, kClosing, kBroken, kFinished };

  // gRPC's reactions.
  void OnWriteDone(bool ok) final TANDEM_EXCLUDES(mutex_) {
    size_t still_queued = 0;
    {
      concurrency::MutexLock lock(mutex_);
      outgoing_.reset();
      write_in_flight_ = false;
      still_queued = queue_.size();
    }
    const auto self = this->shared_from_this();
    if (!ok) return Break();
    Post([still_queued](StreamHandler<In>& handler) { handler.OnWritten(still_queued); });
    Pump();
  }

  void OnCancel() final TANDEM_EXCLUDES(mutex_) {
    SeeEarlierReactions();
    const auto self = this->shared_from_this();
    Break();
  }

  void OnDone() final TANDEM_EXCLUDES(mutex_) {
    SeeEarlierReactions();
    auto self = std::move(self_);
    strand_.Post([self] {
      self->handler_->OnDone(self->EndStatus());
      self->handler_.reset();
    });
  }

  // The call was cancelled, or a write showed that it is over.
  void Break() TANDEM_EXCLUDES(mutex_) {
    {
      concurrency::MutexLock lock(mutex_);
      broken_ = true;
      if (state_ == State::kOpen || state_ == State::kClosing) {
        state_ = State::kBroken;
        finish_status_ = grpc::Status::CANCELLED;
        queue_.Clear();
      }
    }
    Pump();
  }

  // Starts the next write or the finish, whatever is due.
  void Pump() TANDEM_EXCLUDES(mutex_) {
    bool finish = false;
    grpc::Status finish_status;
    {
      concurrency::MutexLock lock(mutex_);
      if (!begun_ || cancelling_ || write_in_flight_ || state_ == State::kFinished) return;
      if (!queue_.empty()) {
        outgoing_.emplace(queue_.Pop());
        write_in_flight_ = true;
      } else if (state_ != State::kOpen) {
        state_ = State::kFinished;
        finish_status = finish_status_;
        finish = true;
      } else {
        return;
      }
    }
    // Only one thread gets here at a time: write_in_flight_ or kFinished keeps the others out.
    if (finish) {
      this->Finish(std::move(finish_status));
    } else {
      this->StartWrite(&*outgoing_);
    }
  }

  // gRPC orders a reaction after those before it, which ThreadSanitizer does not see. Our mutex
  // makes it visible.
  void SeeEarlierReactions() TANDEM_EXCLUDES(mutex_) { concurrency::MutexLock lock(mutex_); }

  // What the handler is told at the end.
  absl::Status EndStatus() const TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    if (broken_ && !aborted_) {
      return absl::CancelledError("the client cancelled the call or went away");
    }
    return FromGrpc(finish_status_);
  }

  void AbortLocked(grpc::Status status) TANDEM_REQUIRES(mutex_) {
    queue_.Clear();
    finish_status_ = std::move(status);
    state_ = State::kBroken;
    aborted_ = cancelling_ = true;
  }

  // gRPC's transport sends this status to the peer, past the messages that the peer does not read.
  // True once, for the thread that aborted the stream; false for all others.
  bool CancelIfAborted() TANDEM_EXCLUDES(mutex_) {
    grpc::Status status;
    bool cancel = false;
    {
      concurrency::MutexLock lock(mutex_);
      cancel = cancelling_ && !std::exchange(cancel_begun_, cancelling_);
      status = finish_status_;
    }
    if (cancel) {
      grpc_call_cancel_with_status(context_->c_call(),
                                   static_cast<grpc_status_code>(status.error_code()),
                                   status.error_message().c_str(), nullptr);
      concurrency::MutexLock lock(mutex_);
      cancelling_ = false;
    }
    Pump();
    return cancel;
  }

  grpc::CallbackServerContext* const context_;
  CountedStream counted_;
  mutable concurrency::Mutex mutex_;
  State state_ TANDEM_GUARDED_BY(mutex_) = State::kOpen;
  bool begun_ TANDEM_GUARDED_BY(mutex_) = false;
  bool broken_ TANDEM_GUARDED_BY(mutex_) = false;
  bool aborted_ TANDEM_GUARDED_BY(mutex_) = false;
  bool cancel_begun_ TANDEM_GUARDED_BY(mutex_) = false;
  bool cancelling_ TANDEM_GUARDED_BY(mutex_) = false;  // keeps Finish, and so OnDone, away
  bool write_in_flight_ TANDEM_GUARDED_BY(mutex_) = false;
  WriteQueue<Out> queue_ TANDEM_GUARDED_BY(mutex_);
  grpc::Status finish_status_ TANDEM_GUARDED_BY(mutex_);
  // The message in flight. It may be large, so it is freed as soon as it is written. Touched by the
  // thread that set write_in_flight_, and by gRPC.
  std::optional<Out> outgoing_;
  concurrency::Strand strand_;
  std::unique_ptr<StreamHandler<In>> handler_;  // touched on the strand only
  std::shared_ptr<ServerWriteSide> self_;       // until OnDone
};

}  // namespace tandem::transport
