// One stream of a service, up to its thread: Hello, Welcome, then requests. No gRPC in here.
//
// | state    | Hello               | other messages      | half-close                    |
// |----------|---------------------|---------------------|-------------------------------|
// | new      | Welcome → open      | FAILED_PRECONDITION | the stream ends with OK       |
// | open     | FAILED_PRECONDITION | to the thread       | all answered, then OK → ended |
// | ended    | ignored             | ignored             | ignored                       |
#pragma once

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "common/messages/handshake.h"
#include "common/serving/stream_events.h"
#include "common/transport/stream.h"
#include "tandem/internal/v1/tokens.pb.h"
#include "tandem/v1/describe.pb.h"

namespace tandem::serving {

// `Message`: what clients send; one of its kinds is hello. `Executor`: the service's, derived from
// serving::Executor.
template <typename Message, typename Executor>
class Session : public transport::StreamHandler<Message> {
 public:
  using Reply = typename Executor::Reply;

  // All of them must outlive the session. `welcome`: what the service says of itself.
  Session(Executor& executor, const v1::Welcome& welcome,
          std::shared_ptr<transport::Sink<Reply>> sink)
      : executor_(executor), welcome_(welcome), sink_(std::move(sink)) {}

  void OnMessage(Message message) final {
    if (state_ == State::kEnded) return;
    if (absl::Status status = Check(message); !status.ok()) {
      End(std::move(status));
    } else if (message.has_hello()) {
      OnHello(message.hello());
    } else if (state_ == State::kNew) {
      End(absl::FailedPreconditionError("the first message of a stream must be Hello"));
    } else {
      Handle(std::move(message));
    }
  }

  void OnHalfClose() final {
    if (state_ == State::kNew) {
      End(absl::OkStatus());
    } else if (state_ == State::kOpen) {
      state_ = State::kEnded;
      executor_.queue().Push(StreamFinishes{stream_});
    }
  }

  void OnDone(absl::Status status) final {
    state_ = State::kEnded;
    Forget(!status.ok(), status);
  }

 protected:
  // ---- what a service says of its messages ----

  // Not OK: the stream ends with it. May change the message.
  virtual absl::Status Check(Message& message) = 0;
  // The client fits. Not OK: it is refused with it. OK: `stream` is its stream from now on.
  virtual absl::Status Admit(const internal::v1::Hello& /*hello*/, StreamId /*stream*/) {
    return absl::OkStatus();
  }
  // Adds to the Welcome of this stream what the service knows only now.
  virtual void Greet(v1::Welcome& /*welcome*/) const {}
  // A message other than Hello, on an open stream.
  virtual void Handle(Message message) = 0;
  // The stream that was admitted is over, and the executor was told so. `end`: CANCELLED: the
  // client broke it off or is gone; OK: it ended in order; else what this side ended it with.
  virtual void Left(StreamId /*stream*/, const absl::Status& /*end*/) {}

  // ---- what a service uses ----

  Executor& executor() const { return executor_; }
  StreamId stream() const { return stream_; }  // none: the executor does not know it
  // The stream ends if too many wait.
  void PushRequest(typename Executor::Request request) {
    absl::Status status = executor_.queue().PushRequest(std::move(request));
    if (!status.ok()) End(std::move(status));
  }
  // Closes the stream: it broke the protocol, so nothing is kept for it.
  void End(absl::Status status) {
    state_ = State::kEnded;
    Forget(/*may_return=*/false, status);
    sink_->Close(std::move(status));
  }

 private:
  enum class State { kNew, kOpen, kEnded };

  void OnHello(const internal::v1::Hello& hello) {
    if (state_ != State::kNew) {
      End(absl::FailedPreconditionError("Hello is the first message of a stream, and comes once"));
      return;
    }
    const StreamId stream = executor_.NewStreamId();
    absl::Status status = messages::CheckHello(hello, welcome_);
    if (status.ok()) status = Admit(hello, stream);
    if (!status.ok()) {
      End(std::move(status));
      return;
    }
    stream_ = stream;
    state_ = State::kOpen;
    Reply reply;
    *reply.mutable_welcome() = welcome_;
    Greet(*reply.mutable_welcome());
    sink_->Send(std::move(reply));  // before the executor can send an answer
    executor_.queue().Push(StreamBegins<Reply>{stream_, hello.client_id(),
                                               base::Incarnation{hello.incarnation()}, sink_});
  }

  // First the executor drops what it holds of the stream, now or later; then others may take its
  // client's place.
  void Forget(bool may_return, const absl::Status& end) {
    if (stream_ == StreamId()) return;
    const StreamId stream = std::exchange(stream_, {});
    executor_.queue().Push(StreamEnds{stream, may_return, absl::OkStatus()});
    Left(stream, end);
  }

  Executor& executor_;
  const v1::Welcome& welcome_;
  const std::shared_ptr<transport::Sink<Reply>> sink_;
  State state_ = State::kNew;
  StreamId stream_{};
};

}  // namespace tandem::serving
