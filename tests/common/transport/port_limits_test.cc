// What a port withstands: connections that are too many, that are silent, and that come while no
// descriptor is free.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/listen.h"
#include "common/transport/channel.h"
#include "common/transport/raw_service.h"
#include "common/transport/server_host.h"
#include "tests/common/admin/http_client.h"
#include "tests/common/transport/echo.h"
#include "tests/common/transport/watchdog.h"
#include "tests/support/wait.h"

namespace tandem::transport {
namespace {

// The beginning of HTTP/2 and an empty frame of settings: a client that greets.
const std::string kGreeting("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
constexpr absl::Duration kShort = absl::Milliseconds(50);

std::unique_ptr<ServerHost> StartHost(ServerHostOptions options) {
  options.listen_address = "127.0.0.1:0";
  options.admin_address = "127.0.0.1:0";
  auto host = ServerHost::Start(std::move(options));
  TANDEM_CHECK(host.ok()) << host.status();
  return *std::move(host);
}

// The status of `name` in grpc.health.v1, over this connection: 1 is SERVING; -1: no answer.
int HealthOf(const std::shared_ptr<grpc::Channel>& channel, const std::string& name) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
  const Bytes request = ToBytes(std::string{'\x0a', static_cast<char>(name.size())} + name);
  Bytes reply;
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &request, &reply,
                 [&done](grpc::Status status) { done.set_value(status); });
  if (!done.get_future().get().ok()) return -1;
  const std::string text = ToText(reply);
  return text.size() == 2 ? text[1] : -1;
}

std::shared_ptr<grpc::Channel> ChannelTo(int port) {
  return MakeChannel("127.0.0.1:" + std::to_string(port));
}

TEST(PortLimits, ConnectionsBeyondTheMostAreClosedAndOthersServed) {
  const Watchdog watchdog;
  const auto host = StartHost({.max_connections = 4});
  const auto ours = ChannelTo(host->port());
  EXPECT_EQ(HealthOf(ours, "liveness"), 1);
  std::vector<admin::PlainConnection> others;
  for (int i = 0; i < 3; ++i) {
    others.emplace_back(host->port());
    others.back().Send(kGreeting);
  }
  EXPECT_TRUE(testing::WaitUntil([&] {  // the three are in before
    admin::PlainConnection one_more(host->port());
    one_more.Send(kGreeting);
    return one_more.ReadToEnd().empty();
  }));
  EXPECT_EQ(HealthOf(ours, "liveness"), 1);
  others.clear();
  EXPECT_TRUE(
      testing::WaitUntil([&] { return HealthOf(ChannelTo(host->port()), "liveness") == 1; }));
}

TEST(PortLimits, WhoNeverSentAByteGivesWay) {
  const Watchdog watchdog;
  const auto host = StartHost({.max_connections = 3});
  std::vector<admin::PlainConnection> silent;
  for (int i = 0; i < 3; ++i) silent.emplace_back(host->port());
  for (int i = 0; i < 3; ++i) {
    admin::PlainConnection greets(host->port());
    greets.Send(kGreeting);
    EXPECT_FALSE(greets.Read().empty());
    silent[static_cast<size_t>(i)].ReadToEnd();  // returns: in this order they were closed
    silent.push_back(std::move(greets));
  }
  admin::PlainConnection one_more(host->port());
  EXPECT_EQ(one_more.ReadToEnd(), "") << "the others have said something";
}

TEST(PortLimits, APortThatRefusesConnectionsIsNotReady) {
  const Watchdog watchdog(absl::Seconds(60));
  const auto host = StartHost({.max_connections = 2, .ask_every = kShort});
  host->SetReady(true);
  const auto admin = ChannelTo(host->admin_port());
  EXPECT_EQ(HealthOf(admin, ""), 1);
  {
    std::vector<admin::PlainConnection> others;
    for (int i = 0; i < 2; ++i) {
      others.emplace_back(host->port());
      others.back().Send(kGreeting);
    }
    EXPECT_TRUE(testing::WaitUntil([&] { return HealthOf(admin, "") == 2; }));
    EXPECT_EQ(HealthOf(admin, "liveness"), 1) << "a restart would help nobody";
  }
  EXPECT_TRUE(testing::WaitUntil([&] { return HealthOf(admin, "") == 1; }));
}

// A frame of HTTP/2.
std::string Frame(char type, char flags, char stream, const std::string& payload = "") {
  std::string frame(9, '\0');
  frame[2] = static_cast<char>(payload.size());
  frame[3] = type;
  frame[4] = flags;
  frame[8] = stream;
  return frame + payload;
}

class FloodTest : public ::testing::TestWithParam<std::pair<const char*, std::string>> {};

// Each holds a thread of gRPC's for as long as it goes on.
TEST_P(FloodTest, EndsAndHoldsUpNobody) {
  const Watchdog watchdog(absl::Seconds(120));
  const auto host = StartHost({});
  std::string block;
  while (block.size() < 1 << 20) block += GetParam().second;
  for (const int port : {host->port(), host->admin_port()}) {
    admin::PlainConnection flood(port);
    std::thread answers([&] { flood.ReadToEnd(); });  // who reads them can go on for ever
    flood.Send(kGreeting);
    size_t sent = 0;
    while (sent < size_t{6000} << 20 && flood.Send(block)) sent += block.size();
    EXPECT_LT(sent, size_t{6000} << 20);
    flood.SendEnd();
    answers.join();
  }
  EXPECT_EQ(HealthOf(ChannelTo(host->port()), "liveness"), 1);
}

INSTANTIATE_TEST_SUITE_P(
    PortLimits, FloodTest,
    ::testing::Values(std::pair("Ping", Frame(6, 0, 0, "12345678")),
                      std::pair("PingAck", Frame(6, 1, 0, "12345678")),
                      std::pair("Settings", Frame(4, 0, 0, std::string(120, '\x7f'))),
                      std::pair("WindowUpdate", Frame(8, 0, 0, std::string("\0\0\0\1", 4))),
                      std::pair("Unknown", Frame(0x50, 0, 0))),
    [](const auto& one) { return std::string(one.param.first); });

// The stream's own way of counting, with each spelling of an address.
class TalkService final : public RawService {
 public:
  TalkService() {
    Serve<Bytes>("/test.Bytes/Talk", [](grpc::CallbackServerContext* context) {
      return ServeRawBidi<Bytes, Bytes>(context, {}, [](std::shared_ptr<Sink<Bytes>> sink) {
        return std::make_unique<EchoHandler>(std::move(sink));
      });
    });
  }
};

TEST(PortLimits, MessagesAreNoFlood) {
  const Watchdog watchdog(absl::Seconds(120));
  for (const std::string listen : {"127.0.0.1", "[::1]", "[::]"}) {
    TalkService service;
    ServerHostOptions options;
    options.services = {&service};
    options.listen_address = listen + ":0";
    options.ask_every = kShort;
    auto started = ServerHost::Start(std::move(options));
    if (!started.ok() && listen == "[::1]") continue;  // a machine without IPv6
    ASSERT_TRUE(started.ok()) << started.status();
    PingClient client((*started)->port(), listen == "[::1]" ? listen : "127.0.0.1");
    const Bytes message = ToBytes(std::string(500'000, 'x'));
    // Far more than a connection may bring for nothing.
    for (int i = 0; i < 300; ++i) ASSERT_TRUE(client.RoundTrip(message)) << listen << " " << i;
  }
}

TEST(PortLimits, WhoGreetsAndIsSilentIsClosed) {
  const Watchdog watchdog;
  const auto host = StartHost({.max_connection_idle = absl::Seconds(1)});
  admin::PlainConnection connection(host->port());
  connection.Send(kGreeting);
  EXPECT_FALSE(connection.ReadToEnd().empty());  // returns, for the server ends it
}

// How a call of `method` with this request ends. Compression is the caller's wish.
grpc::Status StatusOf(grpc::GenericStub& stub, const std::string& method, const Bytes& request,
                      grpc_compression_algorithm compression) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  context.set_compression_algorithm(compression);
  Bytes reply;
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, method, {}, &request, &reply,
                 [&done](grpc::Status status) { done.set_value(status); });
  return done.get_future().get();
}

// 8 MB of zeros become 8 kB on the wire, and would be 8 MB here before their size is looked at.
TEST(PortLimits, CompressedMessagesAreNotUnpacked) {
  const Watchdog watchdog(absl::Seconds(60));
  const auto host = StartHost({});
  // Not as Tandem's own channels are: those do not compress.
  grpc::GenericStub stub(grpc::CreateChannel("127.0.0.1:" + std::to_string(host->port()),
                                             grpc::InsecureChannelCredentials()));
  const std::string method = "/grpc.health.v1.Health/Check";
  const Bytes zeros = ToBytes(std::string(8 << 20, '\0'));
  for (const auto compression : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    const grpc::Status refused = StatusOf(stub, method, zeros, compression);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNIMPLEMENTED) << refused.error_message();
    EXPECT_THAT(refused.error_message(), ::testing::HasSubstr("is disabled"));
  }
  EXPECT_TRUE(StatusOf(stub, method, ToBytes(""), GRPC_COMPRESS_NONE).ok());
}

// A stream of reflection that asks one thing and stays open. `answered` or `ended` says what came
// of it.
class ReflectionCall final : public BytesClientReactor {
 public:
  explicit ReflectionCall(grpc::GenericStub& stub) {
    stub.PrepareBidiStreamingCall(
        &context_, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", {}, this);
    StartWrite(&request_);
    StartRead(&reply_);
    StartCall();
  }
  ~ReflectionCall() override {
    context_.TryCancel();
    over_.get_future().wait();
  }

  bool answered() const { return answered_; }
  bool refused() const { return refused_; }

 private:
  void OnReadDone(bool ok) override { answered_ = ok; }
  void OnDone(const grpc::Status& status) override {
    refused_ = status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
    over_.set_value();
  }

  const Bytes request_ = ToBytes(std::string("\x3a\0", 2));  // list_services
  Bytes reply_;
  grpc::ClientContext context_;
  std::atomic<bool> answered_ = false;
  std::atomic<bool> refused_ = false;
  std::promise<void> over_;
};

int Threads() {
  int threads = 0;
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    ++threads;
  }
  return threads;
}

TEST(PortLimits, ReflectionHasFewThreads) {
  const Watchdog watchdog(absl::Seconds(60));
  constexpr int kCalls = 60;
  const auto host = StartHost({});
  const auto channel = ChannelTo(host->port());
  EXPECT_EQ(HealthOf(channel, "liveness"), 1);
  grpc::GenericStub stub(channel);
  const int before = Threads();
  std::vector<std::unique_ptr<ReflectionCall>> calls;
  for (int i = 0; i < kCalls; ++i) calls.push_back(std::make_unique<ReflectionCall>(stub));
  EXPECT_TRUE(testing::WaitUntil([&] {
    return std::all_of(calls.begin(), calls.end(),
                       [](const auto& call) { return call->answered() || call->refused(); });
  }));
  EXPECT_EQ(
      std::count_if(calls.begin(), calls.end(), [](const auto& call) { return call->answered(); }),
      16);
  EXPECT_LE(Threads(), before + 24);
  EXPECT_EQ(HealthOf(channel, "liveness"), 1) << "others are served meanwhile";
  calls.clear();
  EXPECT_TRUE(testing::WaitUntil([&] {
    const ReflectionCall again(stub);
    testing::WaitUntil([&] { return again.answered() || again.refused(); });
    return again.answered();
  })) << "their threads are free again";
}

// Takes all descriptors of this process but those that are open.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      few.rlim_cur = std::max<rlim_t>(few.rlim_cur, std::stoul(entry.path().filename()) + 1);
    }
    setrlimit(RLIMIT_NOFILE, &few);
    for (int fd = 0; fd >= 0;) {
      fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
      if (fd >= 0) fill_.emplace_back(fd);
    }
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
  std::vector<base::Socket> fill_;
};

TEST(PortLimits, ThePortServesAgainAfterDescriptorsRanOut) {
  const Watchdog watchdog(absl::Seconds(60));
  const auto host = StartHost({.ask_every = kShort});
  const auto admin = ChannelTo(host->admin_port());
  ASSERT_EQ(HealthOf(admin, "liveness"), 1);
  {
    admin::PlainConnection waits(host->port());  // made before there is no descriptor
    const NoDescriptors none;
    // Nobody can connect, this host included, and liveness tells so.
    EXPECT_TRUE(testing::WaitUntil([&] { return HealthOf(admin, "liveness") == 2; }));
  }
  EXPECT_TRUE(testing::WaitUntil([&] { return HealthOf(admin, "liveness") == 1; }));
  EXPECT_EQ(HealthOf(ChannelTo(host->port()), "liveness"), 1);
}

// A client in another process connects while the server has no descriptor. In one process a socket
// that connects needs one, too: so it is made before, and connects later.
TEST(PortLimits, AConnectionThatCameWithoutADescriptorIsServedLater) {
  const Watchdog watchdog(absl::Seconds(60));
  const auto host = StartHost({});
  const base::Socket client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(host->port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  {
    const NoDescriptors none;
    ASSERT_EQ(connect(client.fd(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // it was tried
  }
  char byte = 0;
  EXPECT_EQ(recv(client.fd(), &byte, 1, 0), 1);  // the server's settings
  EXPECT_EQ(HealthOf(ChannelTo(host->port()), "liveness"), 1);
}

}  // namespace
}  // namespace tandem::transport
