// Both ends of a stream against each other, in the process and over TCP.
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "common/transport/idle_guard.h"
#include "tests/common/transport/echo.h"
#include "tests/common/transport/watchdog.h"

namespace tandem::transport::stream_test {
namespace {

// Echoes; "close" ends the call with ABORTED. Refuses the call before any message when `refuse` is
// set.
class Echo final : public StreamHandler<Bytes> {
 public:
  Echo(std::shared_ptr<Sink<Bytes>> sink, std::atomic<int>& alive, std::atomic<int>& half_closes,
       std::promise<absl::Status>& done)
      : sink_(std::move(sink)), alive_(alive), half_closes_(half_closes), done_(done) {
    ++alive_;
  }
  ~Echo() override { --alive_; }
  void OnMessage(Bytes message) override {
    if (ToText(message) == "close") return sink_->Close(absl::AbortedError("as asked"));
    sink_->Send(std::move(message));
  }
  void OnHalfClose() override {
    ++half_closes_;
    sink_->Close(absl::OkStatus());
  }
  void OnDone(absl::Status status) override { done_.set_value(status); }

 private:
  const std::shared_ptr<Sink<Bytes>> sink_;
  std::atomic<int>& alive_;
  std::atomic<int>& half_closes_;
  std::promise<absl::Status>& done_;
};

class EchoService final : public grpc::CallbackGenericService {
 public:
  std::atomic<int> alive{0};
  std::atomic<int> half_closes{0};
  std::atomic<bool> refuse{false};
  std::atomic<int> half_close_settles_ms{0};  // set before any call
  std::promise<absl::Status> done;

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return ServeBidi<Bytes, Bytes>(
        context, {.max_queued = 20000},
        [this](std::shared_ptr<Sink<Bytes>> sink) {
          if (refuse) sink->Close(absl::PermissionDeniedError("not you"));
          return std::make_unique<Echo>(std::move(sink), alive, half_closes, done);
        },
        absl::Milliseconds(half_close_settles_ms.load()));
  }
};

struct Received {
  std::promise<absl::Status> done;
  std::promise<void> enough;
  int wanted = -1;
  std::vector<std::string> texts;  // read after `enough` or `done`
};

class Collect final : public StreamHandler<Bytes> {
 public:
  explicit Collect(Received& received) : received_(received) {}
  void OnMessage(Bytes message) override {
    received_.texts.push_back(ToText(message));
    if (static_cast<int>(received_.texts.size()) == received_.wanted) received_.enough.set_value();
  }
  void OnDone(absl::Status status) override { received_.done.set_value(status); }

 private:
  Received& received_;
};

constexpr size_t kRoom = 20000;  // in both queues

std::shared_ptr<Sink<Bytes>> Open(grpc::GenericStub& stub, Received& received) {
  return OpenBidi<Bytes, Bytes>(CallOf(stub), {.max_queued = kRoom},
                                std::make_unique<Collect>(received));
}

class StreamTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    stub_ = std::make_unique<grpc::GenericStub>(
        GetParam() ? server_->InProcessChannel({})
                   : grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                         grpc::InsecureChannelCredentials()));
  }
  void TearDown() override {
    server_->Shutdown(std::chrono::system_clock::now());
    EXPECT_EQ(service_.alive, 0);
  }

  const Watchdog watchdog_;
  const std::shared_ptr<IdleGuard> guard_ = IdleGuard::Get();
  EchoService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<grpc::GenericStub> stub_;
  Received received_;
};

INSTANTIATE_TEST_SUITE_P(Transport, StreamTest, ::testing::Values(true, false),
                         [](const auto& info) { return info.param ? "InProcess" : "Tcp"; });

TEST_P(StreamTest, EchoesInOrderAndEndsByHalfClose) {
  auto sink = Open(*stub_, received_);
  constexpr int kMessages = 10000;
  for (int i = 0; i < kMessages; ++i) ASSERT_TRUE(sink->Send(ToBytes(std::to_string(i))));
  sink->Close(absl::OkStatus());
  EXPECT_TRUE(received_.done.get_future().get().ok());
  ASSERT_EQ(received_.texts.size(), static_cast<size_t>(kMessages));
  for (int i = 0; i < kMessages; ++i) ASSERT_EQ(received_.texts[i], std::to_string(i));
  EXPECT_FALSE(sink->Send(ToBytes("late")));
  EXPECT_TRUE(service_.done.get_future().get().ok());
}

// A call that is over ends the client's messages just as a half-close does.
TEST_P(StreamTest, WithTimeToSettleACancelledCallIsNotHalfClosed) {
  service_.half_close_settles_ms = 2000;
  received_.wanted = 1;
  auto sink = Open(*stub_, received_);
  sink->Send(ToBytes("a"));
  received_.enough.get_future().get();
  sink->Close(absl::CancelledError("gone"));
  EXPECT_EQ(received_.done.get_future().get().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(service_.done.get_future().get().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(service_.half_closes, 0);
}

TEST_P(StreamTest, WithTimeToSettleAHalfCloseComesAllTheSame) {
  service_.half_close_settles_ms = 20;
  auto sink = Open(*stub_, received_);
  sink->Send(ToBytes("a"));
  sink->Close(absl::OkStatus());
  EXPECT_TRUE(received_.done.get_future().get().ok());
  EXPECT_TRUE(service_.done.get_future().get().ok());
  EXPECT_EQ(service_.half_closes, 1);
}

TEST_P(StreamTest, TheServersStatusReachesTheClient) {
  auto sink = Open(*stub_, received_);
  sink->Send(ToBytes("close"));
  EXPECT_EQ(received_.done.get_future().get(), absl::AbortedError("as asked"));
  EXPECT_FALSE(sink->Send(ToBytes("late")));
}

TEST_P(StreamTest, AnErrorBeforeTheFirstRead) {
  service_.refuse = true;
  auto sink = Open(*stub_, received_);
  sink->Send(ToBytes("x"));
  EXPECT_EQ(received_.done.get_future().get(), absl::PermissionDeniedError("not you"));
  EXPECT_EQ(service_.done.get_future().get(), absl::PermissionDeniedError("not you"));
  EXPECT_TRUE(received_.texts.empty());
}

TEST_P(StreamTest, ACancelReachesTheServer) {
  received_.wanted = 1;
  auto sink = Open(*stub_, received_);
  sink->Send(ToBytes("x"));
  received_.enough.get_future().get();
  for (int i = 0; i < 100; ++i) sink->Send(ToBytes(std::string(10000, 'x')));
  sink->Close(absl::CancelledError("enough"));
  EXPECT_EQ(received_.done.get_future().get().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(service_.done.get_future().get().code(), absl::StatusCode::kCancelled);
}

TEST_P(StreamTest, ShutdownEndsOpenStreams) {
  received_.wanted = 1;
  auto sink = Open(*stub_, received_);
  sink->Send(ToBytes("x"));
  received_.enough.get_future().get();
  server_->Shutdown(std::chrono::system_clock::now());
  EXPECT_FALSE(received_.done.get_future().get().ok());
  EXPECT_EQ(service_.done.get_future().get().code(), absl::StatusCode::kCancelled);
}

TEST(ClientStreamTest, OpeningToNowhereEndsOnce) {
  const Watchdog watchdog;
  const auto guard = IdleGuard::Get();
  grpc::GenericStub stub(grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials()));
  Received received;
  auto sink = Open(stub, received);
  EXPECT_EQ(received.done.get_future().get().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(sink->Send(ToBytes("late")));
}

}  // namespace
}  // namespace tandem::transport::stream_test
