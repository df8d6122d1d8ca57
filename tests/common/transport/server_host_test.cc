// Health, reflection, binding and draining of a process's services.
#include "common/transport/server_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <iterator>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "common/transport/channel.h"
#include "tandem/internal/v1/target.grpc.pb.h"
#include "tests/common/admin/http_client.h"
#include "tests/common/transport/echo.h"
#include "tests/common/transport/watchdog.h"
#include "tests/support/wait.h"

namespace tandem::transport {
namespace {

constexpr char kTarget[] = "tandem.internal.v1.Target";
enum Health { kUnknown = 0, kServing = 1, kNotServing = 2 };  // grpc.health.v1

std::string Address(int port) { return "127.0.0.1:" + std::to_string(port); }

// A message whose only field is a string.
std::string StringField(int number, const std::string& value) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(value.size())} + value;
}

// grpc.health.v1.Health/Check; nullopt: no such name.
std::optional<int> Check(int port, const std::string& name) {
  grpc::GenericStub stub(MakeChannel(Address(port)));
  grpc::ClientContext context;
  const Bytes request = ToBytes(StringField(1, name));
  Bytes reply;
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &request, &reply,
                 [&done](grpc::Status status) { done.set_value(status); });
  const grpc::Status status = done.get_future().get();
  if (status.error_code() == grpc::StatusCode::NOT_FOUND) return std::nullopt;
  EXPECT_TRUE(status.ok()) << status.error_message();
  const std::string text = ToText(reply);
  return text.size() == 2 ? int{text[1]} : int{kUnknown};
}

// Never ends a call by itself, but when told to.
class HoldService final : public internal::v1::Target::CallbackService {
 public:
  std::promise<std::shared_ptr<Sink<internal::v1::TargetReply>>> opened;
  std::promise<absl::Status> ended;

 private:
  class Hold final : public StreamHandler<internal::v1::TargetRequest> {
   public:
    explicit Hold(HoldService& service) : service_(service) {}
    void OnMessage(internal::v1::TargetRequest) override {}
    void OnDone(absl::Status status) override { service_.ended.set_value(status); }

   private:
    HoldService& service_;
  };

  grpc::ServerBidiReactor<internal::v1::TargetRequest, internal::v1::TargetReply>* Verify(
      grpc::CallbackServerContext* context) override {
    return ServeBidi<internal::v1::TargetRequest, internal::v1::TargetReply>(
        context, {}, [this](std::shared_ptr<Sink<internal::v1::TargetReply>> sink) {
          opened.set_value(sink);
          return std::make_unique<Hold>(*this);
        });
  }
};

class ServerHostTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto host = ServerHost::Start({.listen_address = "127.0.0.1:0",
                                   .admin_address = "127.0.0.1:0",
                                   .metrics = [] { return "x 1\n"; },
                                   .services = {&service_},
                                   .health_names = {kTarget}});
    ASSERT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
  }

  // Opens a call that the server holds.
  void Open() {
    stub_ = internal::v1::Target::NewStub(MakeChannel(Address(host_->port())));
    class Handler final : public StreamHandler<internal::v1::TargetReply> {
     public:
      explicit Handler(std::promise<absl::Status>& done) : done_(done) {}
      void OnMessage(internal::v1::TargetReply) override {}
      void OnDone(absl::Status status) override { done_.set_value(status); }

     private:
      std::promise<absl::Status>& done_;
    };
    client_ = OpenBidi<internal::v1::TargetRequest, internal::v1::TargetReply>(
        [this](auto* context, auto* reactor) { stub_->async()->Verify(context, reactor); }, {},
        std::make_unique<Handler>(client_done_));
    server_ = service_.opened.get_future().get();
  }

  const Watchdog watchdog_;
  HoldService service_;
  std::unique_ptr<ServerHost> host_;
  std::unique_ptr<internal::v1::Target::Stub> stub_;
  std::shared_ptr<Sink<internal::v1::TargetRequest>> client_;
  std::shared_ptr<Sink<internal::v1::TargetReply>> server_;
  std::promise<absl::Status> client_done_;
};

TEST_F(ServerHostTest, HealthFollowsReadinessOnBothPorts) {
  for (const int port : {host_->port(), host_->admin_port()}) {
    host_->SetReady(false);
    EXPECT_EQ(Check(port, "liveness"), kServing);
    EXPECT_EQ(Check(port, ""), kNotServing);
    EXPECT_EQ(Check(port, kTarget), kNotServing);
    host_->SetReady(true);
    EXPECT_EQ(Check(port, ""), kServing);
    EXPECT_EQ(Check(port, kTarget), kServing);
    host_->SetAlive(false);
    EXPECT_EQ(Check(port, "liveness"), kNotServing);
    host_->SetAlive(true);
    EXPECT_EQ(Check(port, "tandem.internal.v1.Draft"), std::nullopt);
  }
}

TEST_F(ServerHostTest, TheAdminPortHasNoServices) {
  const auto stub = internal::v1::Target::NewStub(MakeChannel(Address(host_->admin_port())));
  grpc::ClientContext context;
  v1::DescribeReply reply;
  EXPECT_EQ(stub->Describe(&context, {}, &reply).error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

constexpr char kGet[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

// Open descriptors of this process.
ptrdiff_t Descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

TEST_F(ServerHostTest, TheAdminPortSpeaksBothProtocolsAtATime) {
  host_->SetReady(true);
  ASSERT_EQ(Check(host_->admin_port(), ""), kServing);
  const ptrdiff_t before = Descriptors();
  std::atomic<int> good = 0;
  std::vector<std::thread> clients;
  for (const bool health : {true, false, true, false}) {
    clients.emplace_back([this, health, &good] {
      for (int i = 0; i < 25; ++i) {
        if (health) {
          // A connection of its own, closed at the end.
          good += Check(host_->admin_port(), "") == kServing ? 1 : 0;
        } else {
          good += absl::EndsWith(admin::Http(host_->admin_port(), kGet), "\nx 1\n") ? 1 : 0;
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, 100);
  // gRPC keeps a few of its own once it needs them. A connection that is not closed would be one of
  // a hundred.
  EXPECT_TRUE(
      testing::WaitUntil([before] { return Descriptors() <= before + 8; }, absl::Seconds(20)))
      << before << " descriptors before, and now " << Descriptors();
}

TEST_F(ServerHostTest, MetricsAreThereUntilTheDrainIsOver) {
  EXPECT_THAT(admin::Http(host_->admin_port(), kGet), ::testing::StartsWith("HTTP/1.1 200 OK\r\n"));
  // Not on the port that has the services.
  EXPECT_THAT(admin::Http(host_->port(), kGet), ::testing::Not(::testing::HasSubstr("x 1")));
  Open();
  std::thread drain([this] { host_->Drain(absl::Seconds(60)); });
  while (Check(host_->admin_port(), "") != kNotServing) std::this_thread::yield();
  EXPECT_THAT(admin::Http(host_->admin_port(), kGet), ::testing::EndsWith("x 1\n"));
  server_->Close(absl::OkStatus());
  EXPECT_TRUE(client_done_.get_future().get().ok());
  drain.join();
  EXPECT_TRUE(service_.ended.get_future().get().ok());
  EXPECT_FALSE(admin::PlainConnection(host_->admin_port()).connected());
}

TEST_F(ServerHostTest, TheAdminPortMayEndUnderLoad) {
  const int port = host_->admin_port();
  std::atomic<int> served = 0;
  std::vector<std::thread> clients;
  for (const absl::string_view first : {kGet, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "PRI ", ""}) {
    clients.emplace_back([port, first, &served] {
      while (true) {
        admin::PlainConnection connection(port);
        if (!connection.connected()) return;
        connection.Send(first);
        connection.SendEnd();
        connection.ReadToEnd();
        ++served;
      }
    });
  }
  while (served < 200) std::this_thread::yield();
  host_ = nullptr;
  for (std::thread& client : clients) client.join();
  EXPECT_FALSE(admin::PlainConnection(port).connected());
}

TEST_F(ServerHostTest, ATakenPortIsNamed) {
  const std::string taken = Address(host_->port());
  for (const bool admin : {false, true}) {
    ServerHostOptions options{.listen_address = admin ? "127.0.0.1:0" : taken};
    if (admin) options.admin_address = taken;
    const auto second = ServerHost::Start(options);
    ASSERT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(second.status().message(), ::testing::HasSubstr(taken));
  }
}

TEST_F(ServerHostTest, ReflectionListsTheServices) {
  class Handler final : public StreamHandler<Bytes> {
   public:
    Handler(std::string& text, std::promise<absl::Status>& done) : text_(text), done_(done) {}
    void OnMessage(Bytes message) override { text_ += ToText(message); }
    void OnDone(absl::Status status) override { done_.set_value(status); }

   private:
    std::string& text_;
    std::promise<absl::Status>& done_;
  };
  grpc::GenericStub stub(MakeChannel(Address(host_->port())));
  std::string text;
  std::promise<absl::Status> done;
  auto sink = OpenBidi<Bytes, Bytes>(
      [&stub](grpc::ClientContext* context, BytesClientReactor* reactor) {
        stub.PrepareBidiStreamingCall(
            context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", {}, reactor);
      },
      {}, std::make_unique<Handler>(text, done));
  sink->Send(ToBytes(StringField(7, "*")));  // list_services
  sink->Close(absl::OkStatus());
  EXPECT_TRUE(done.get_future().get().ok());
  EXPECT_THAT(text, ::testing::HasSubstr(kTarget));
  EXPECT_THAT(text, ::testing::HasSubstr("grpc.health.v1.Health"));
}

TEST_F(ServerHostTest, DrainingIsNotReadyAndWaitsForOpenCalls) {
  host_->SetReady(true);
  Open();
  std::thread drain([this] { host_->Drain(absl::Seconds(60)); });
  while (Check(host_->admin_port(), kTarget) != kNotServing) std::this_thread::yield();
  EXPECT_EQ(Check(host_->admin_port(), "liveness"), kServing);
  EXPECT_TRUE(server_->Send({}));  // the open call goes on
  server_->Close(absl::AbortedError("work is done"));
  EXPECT_EQ(client_done_.get_future().get(), absl::AbortedError("work is done"));
  drain.join();
  EXPECT_EQ(service_.ended.get_future().get(), absl::AbortedError("work is done"));
  host_->Drain(absl::Seconds(60));  // again: does nothing
}

TEST_F(ServerHostTest, ACallThatNeverEndsIsCancelledAfterTheGrace) {
  Open();
  host_->Drain(absl::Milliseconds(50));
  EXPECT_EQ(service_.ended.get_future().get().code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(client_done_.get_future().get().ok());
  EXPECT_FALSE(server_->Send({}));
}

}  // namespace
}  // namespace tandem::transport
