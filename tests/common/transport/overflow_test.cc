// Peers that read slowly or not at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>

#include "common/concurrency/mutex.h"
#include "common/transport/idle_guard.h"
#include "tests/common/transport/echo.h"
#include "tests/common/transport/watchdog.h"

namespace tandem::transport {
namespace {

const std::string kBig(65536, 'x');
constexpr size_t kRoom = 64;

// Counts what comes and what was written; `first` runs with the first message.
class Counter final : public StreamHandler<Bytes> {
 public:
  struct Result {
    std::atomic<int> messages{0};
    std::atomic<int> written{0};
    std::promise<absl::Status> done;
  };
  Counter(Result& result, std::function<void()> first)
      : result_(result), first_(std::move(first)) {}
  void OnMessage(Bytes) override {
    if (result_.messages++ == 0 && first_ != nullptr) first_();
  }
  void OnWritten(size_t) override { ++result_.written; }
  void OnDone(absl::Status status) override { result_.done.set_value(status); }

 private:
  Result& result_;
  const std::function<void()> first_;
};

// The first message makes `act` run.
class Service final : public grpc::CallbackGenericService {
 public:
  std::function<void(Sink<Bytes>&)> act;
  Counter::Result result;
  StreamOptions options = {.max_queued = kRoom};

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return ServeBidi<Bytes, Bytes>(context, options, [this](std::shared_ptr<Sink<Bytes>> sink) {
      return std::make_unique<Counter>(result, [this, sink] { act(*sink); });
    });
  }
};

// Never reads; ends when it is cancelled. Its reactions take its mutex first: gRPC orders them
// after the construction, and with the mutex ThreadSanitizer sees that.
class DeafService final : public grpc::CallbackGenericService {
  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    Reactor() { concurrency::MutexLock lock(mutex_); }

   private:
    void OnCancel() override {
      { concurrency::MutexLock lock(mutex_); }
      Finish(grpc::Status::CANCELLED);
    }
    void OnDone() override {
      { concurrency::MutexLock lock(mutex_); }
      delete this;
    }

    concurrency::Mutex mutex_;
  };
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Reactor();
  }
};

// A client that reads only when told to. Its reactions take its mutex first, and so does all that
// comes before the call: the order that gRPC keeps is then one that ThreadSanitizer sees.
class LateReader final : public BytesClientReactor {
 public:
  explicit LateReader(grpc::GenericStub& stub) {
    concurrency::MutexLock lock(mutex_);
    stub.PrepareBidiStreamingCall(&context_, "/test.Bytes/Talk", {}, this);
    StartWrite(&outgoing_);
    AddHold();
    StartCall();
  }
  void Read() {
    StartRead(&incoming_);
    RemoveHold();
  }
  grpc::Status Done() {
    concurrency::MutexLock lock(mutex_);
    while (!done_) changed_.Wait(mutex_);
    return status_;
  }
  int messages() const { return messages_; }

 private:
  void OnReadDone(bool ok) override {
    { concurrency::MutexLock lock(mutex_); }
    if (!ok) return;
    ++messages_;
    StartRead(&incoming_);
  }
  void OnDone(const grpc::Status& status) override {
    concurrency::MutexLock lock(mutex_);
    status_ = status;
    done_ = true;
    changed_.NotifyAll();
  }

  concurrency::Mutex mutex_;
  concurrency::CondVar changed_;
  bool done_ TANDEM_GUARDED_BY(mutex_) = false;
  grpc::Status status_ TANDEM_GUARDED_BY(mutex_);
  grpc::ClientContext context_;
  const Bytes outgoing_ = ToBytes("begin");
  Bytes incoming_;
  std::atomic<int> messages_{0};
};

class OverflowTest : public testing::TestWithParam<bool> {
 protected:
  void Start(grpc::CallbackGenericService& service) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterCallbackGenericService(&service);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    stub_ = std::make_unique<grpc::GenericStub>(
        GetParam() ? server_->InProcessChannel({})
                   : grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                         grpc::InsecureChannelCredentials()));
  }
  void TearDown() override { server_->Shutdown(std::chrono::system_clock::now()); }

  const Watchdog watchdog_;
  const std::shared_ptr<IdleGuard> guard_ = IdleGuard::Get();
  Service service_;
  DeafService deaf_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<grpc::GenericStub> stub_;
};

INSTANTIATE_TEST_SUITE_P(Transport, OverflowTest, testing::Values(true, false),
                         [](const auto& info) { return info.param ? "InProcess" : "Tcp"; });

TEST_P(OverflowTest, WhatASlowReaderHasNotReadWaits) {
  std::promise<int> sent;
  service_.act = [&](Sink<Bytes>& sink) {
    int messages = 0;
    while (sink.queued() < kRoom) {  // until gRPC's own buffers are full too
      EXPECT_TRUE(sink.Send(ToBytes(kBig)));
      ++messages;
    }
    sink.Close(absl::OkStatus());
    sent.set_value(messages);
  };
  Start(service_);
  LateReader client(*stub_);
  const int messages = sent.get_future().get();
  client.Read();
  EXPECT_TRUE(client.Done().ok());
  EXPECT_EQ(client.messages(), messages);
  EXPECT_TRUE(service_.result.done.get_future().get().ok());
  EXPECT_EQ(service_.result.written, messages);
}

TEST_P(OverflowTest, AServerEndsACallWhoseClientDoesNotRead) {
  service_.act = [](Sink<Bytes>& sink) {
    size_t sent = 0;
    while (sink.Send(ToBytes(kBig))) ++sent;
    EXPECT_GE(sent, kRoom);
    EXPECT_EQ(sink.queued(), 0u);
    EXPECT_FALSE(sink.Send(ToBytes("late")));
    sink.Close(absl::OkStatus());  // changes nothing any more
  };
  Start(service_);
  LateReader client(*stub_);
  // The server is done with the call while the client still reads nothing.
  const absl::Status end = service_.result.done.get_future().get();
  EXPECT_EQ(end.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(end.message(), testing::HasSubstr("64 messages"));
  client.Read();
  const grpc::Status status = client.Done();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_EQ(status.error_message(), end.message());
}

// Far fewer messages than may wait.
TEST_P(OverflowTest, AServerEndsACallWhoseClientLeavesTooManyBytes) {
  service_.options = {.max_queued_bytes = 8 * kBig.size()};
  service_.act = [](Sink<Bytes>& sink) {
    size_t most = 0;
    while (sink.Send(ToBytes(kBig))) most = std::max(most, sink.queued());
    EXPECT_EQ(most, 8u);
  };
  Start(service_);
  LateReader client(*stub_);
  const absl::Status end = service_.result.done.get_future().get();
  EXPECT_EQ(end.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(end.message(), testing::HasSubstr("8 messages of 524288 bytes"));
  client.Read();
  EXPECT_EQ(client.Done().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_P(OverflowTest, AServerAbortsACallWhoseClientDoesNotRead) {
  std::promise<std::function<void(absl::Status)>> abort;
  service_.act = [&](Sink<Bytes>& sink) {
    while (sink.queued() < kRoom) sink.Send(ToBytes(kBig));
    sink.Close(absl::OkStatus());  // which waits for the reader
    abort.set_value([&sink](absl::Status status) { sink.Abort(std::move(status)); });
  };
  Start(service_);
  LateReader client(*stub_);
  const auto do_abort = abort.get_future().get();
  do_abort(absl::AbortedError("enough"));
  // The server is done with the call while the client still reads nothing.
  EXPECT_EQ(service_.result.done.get_future().get(), absl::AbortedError("enough"));
  client.Read();
  const grpc::Status status = client.Done();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(status.error_message(), "enough");
}

TEST_P(OverflowTest, AClientEndsACallWhoseServerDoesNotRead) {
  Start(deaf_);
  Counter::Result result;
  auto sink = OpenBidi<Bytes, Bytes>(CallOf(*stub_), {.max_queued = kRoom},
                                     std::make_unique<Counter>(result, nullptr));
  size_t sent = 0;
  while (sink->Send(ToBytes(kBig))) ++sent;
  EXPECT_GE(sent, kRoom);
  const absl::Status end = result.done.get_future().get();
  EXPECT_EQ(end.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(end.message(), testing::HasSubstr("64 messages"));
  EXPECT_EQ(sink->queued(), 0u);
}

}  // namespace
}  // namespace tandem::transport
