#include "tests/integration/held_call.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace tandem::testing {

// Holds gRPC's OnDone back while nobody reads, since a read may begin later from outside.
class HeldCall::Reactor final : public grpc::ClientReadReactor<v1::GenerateReply> {
 public:
  explicit Reactor(HeldCall& call) : call_(call) {
    if (call_.options_.timeout != absl::InfiniteDuration()) {
      context_.set_deadline(std::chrono::system_clock::now() +
                            absl::ToChronoMilliseconds(call_.options_.timeout));
    }
    call_.stub_->async()->Generate(&context_, &call_.request_, this);
    AddHold();
    if (call_.options_.read_first > 0) StartRead(&message_);
    if (call_.options_.read_first == HeldCallOptions::kAll) LetGo();
    StartCall();
  }

  void Cancel() {
    context_.TryCancel();
    ReadOn();
  }

  void ReadOn() {
    bool read = false;
    {
      concurrency::MutexLock lock(mutex_);
      read = std::exchange(stopped_, false);
      may_stop_ = false;
    }
    if (read) StartRead(&message_);
    LetGo();
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return;
    ++messages_;
    const bool is_started = message_.has_started();
    if (message_.has_delta()) ++deltas_;
    TakeReply(std::move(message_), call_.reply_);
    message_.Clear();
    if (is_started) {
      if (call_.options_.on_started) call_.options_.on_started();
      concurrency::MutexLock lock(call_.mutex_);
      call_.started_ = true;
      call_.changed_.NotifyAll();
    }
    if (deltas_ >= call_.options_.cancel_after_deltas) context_.TryCancel();
    {
      concurrency::MutexLock lock(mutex_);
      stopped_ = may_stop_ && messages_ >= call_.options_.read_first;
      if (stopped_) return;
    }
    StartRead(&message_);
  }

  void OnDone(const grpc::Status& status) override {
    if (call_.reply_.status.ok()) {
      call_.reply_.status =
          absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
    }
    concurrency::MutexLock lock(call_.mutex_);
    call_.done_ = true;
    call_.changed_.NotifyAll();  // under the lock: Wait may end the call once it has it
  }

  void LetGo() {
    {
      concurrency::MutexLock lock(mutex_);
      if (!std::exchange(held_, false)) return;
    }
    RemoveHold();
  }

  HeldCall& call_;
  grpc::ClientContext context_;
  v1::GenerateReply message_;
  uint32_t messages_ = 0;
  uint32_t deltas_ = 0;
  concurrency::Mutex mutex_;
  bool held_ TANDEM_GUARDED_BY(mutex_) = true;
  bool may_stop_ TANDEM_GUARDED_BY(mutex_) = true;
  bool stopped_ TANDEM_GUARDED_BY(mutex_) = call_.options_.read_first == 0;
};

HeldCall::HeldCall(const std::shared_ptr<grpc::Channel>& channel, v1::GenerateRequest request,
                   HeldCallOptions options)
    : stub_(v1::Generation::NewStub(channel)),
      request_(std::move(request)),
      options_(std::move(options)),
      reactor_(std::make_unique<Reactor>(*this)) {}

HeldCall::~HeldCall() {
  Cancel();
  Wait();
}

bool HeldCall::started() const {
  concurrency::MutexLock lock(mutex_);
  return started_;
}

bool HeldCall::done() const {
  concurrency::MutexLock lock(mutex_);
  return done_;
}

void HeldCall::ReadOn() { reactor_->ReadOn(); }

void HeldCall::Cancel() { reactor_->Cancel(); }

const Reply& HeldCall::Wait() {
  if (!done()) ReadOn();
  concurrency::MutexLock lock(mutex_);
  while (!done_) changed_.Wait(mutex_);
  return reply_;
}

std::shared_ptr<grpc::Channel> NarrowChannel(int port, int window_bytes) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, window_bytes);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // which would widen it
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port),
                                   grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace tandem::testing
