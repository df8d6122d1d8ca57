#include "tests/netproxy/netproxy.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"

namespace tandem::netproxy {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// A listening socket, the proxy before it, and one connection through both.
class NetProxyTest : public testing::Test {
 protected:
  void SetUp() override {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    ASSERT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    ASSERT_EQ(listen(listener_, 8), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    auto proxy = NetProxy::Start(absl::StrCat("127.0.0.1:", ntohs(address.sin_port)));
    ASSERT_TRUE(proxy.ok()) << proxy.status();
    proxy_ = *std::move(proxy);
    client_ = socket(AF_INET, SOCK_STREAM, 0);
    address = Loopback(proxy_->port());
    ASSERT_EQ(connect(client_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    server_ = accept(listener_, nullptr, nullptr);
    ASSERT_GE(server_, 0);
  }

  void TearDown() override {
    for (int fd : {client_, server_, listener_}) close(fd);
  }

  static bool Readable(int fd, int milliseconds) {
    pollfd waited{fd, POLLIN, 0};
    return poll(&waited, 1, milliseconds) == 1;
  }

  static std::string Receive(int fd, size_t bytes) {
    std::string got(bytes, '\0');
    const ssize_t n = recv(fd, got.data(), bytes, MSG_WAITALL);
    got.resize(n < 0 ? 0 : static_cast<size_t>(n));
    return got;
  }

  static void Send(int fd, const std::string& text) {
    ASSERT_EQ(send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }

  std::unique_ptr<NetProxy> proxy_;
  int listener_ = -1;
  int client_ = -1;
  int server_ = -1;
};

TEST_F(NetProxyTest, ForwardsBothWays) {
  Send(client_, "there");
  EXPECT_EQ(Receive(server_, 5), "there");
  Send(server_, "back");
  EXPECT_EQ(Receive(client_, 4), "back");
  EXPECT_EQ(proxy_->connections(), 1u);
  EXPECT_EQ(proxy_->total_connections(), 1u);
}

TEST_F(NetProxyTest, AnEndTravelsAfterTheBytesBeforeIt) {
  Send(client_, "last");
  shutdown(client_, SHUT_WR);
  EXPECT_EQ(Receive(server_, 5), "last");  // four bytes, then the end
  Send(server_, "answer");
  EXPECT_EQ(Receive(client_, 6), "answer");
}

TEST_F(NetProxyTest, DelayHoldsBytesBack) {
  proxy_->SetQuality({absl::Milliseconds(80), absl::ZeroDuration(), 0});
  const absl::Time start = absl::Now();
  Send(client_, "x");
  EXPECT_EQ(Receive(server_, 1), "x");
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(79));
}

TEST_F(NetProxyTest, BandwidthIsKept) {
  proxy_->SetQuality({absl::ZeroDuration(), absl::ZeroDuration(), 1e6});
  const absl::Time start = absl::Now();
  const std::string text(100'000, 'x');
  Send(client_, text);
  EXPECT_EQ(Receive(server_, text.size()), text);
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(95));
}

TEST_F(NetProxyTest, JitterNeverReorders) {
  proxy_->SetQuality({absl::ZeroDuration(), absl::Milliseconds(5), 0});
  std::string text;
  for (int i = 0; i < 200; ++i) {
    Send(client_, std::string(1, static_cast<char>('a' + i % 26)));
    text += static_cast<char>('a' + i % 26);
  }
  EXPECT_EQ(Receive(server_, text.size()), text);
}

TEST_F(NetProxyTest, StallOneWayLeavesTheOther) {
  proxy_->Stall(Direction::kToTarget);
  Send(client_, "held");
  EXPECT_FALSE(Readable(server_, 100));
  Send(server_, "passes");
  EXPECT_EQ(Receive(client_, 6), "passes");
  proxy_->Resume();
  EXPECT_EQ(Receive(server_, 4), "held");
}

TEST_F(NetProxyTest, ResetEndsBothSides) {
  Send(client_, "x");
  EXPECT_EQ(Receive(server_, 1), "x");
  proxy_->Reset();
  for (int fd : {client_, server_}) {
    ASSERT_TRUE(Readable(fd, 5000));
    char byte = 0;
    EXPECT_EQ(recv(fd, &byte, 1, 0), -1);
    EXPECT_EQ(errno, ECONNRESET);
  }
}

TEST_F(NetProxyTest, HalfOpenHidesAnEndAndSwallows) {
  proxy_->HalfOpen();
  Send(client_, "lost");
  close(client_);
  client_ = -1;
  EXPECT_FALSE(Readable(server_, 100));
  proxy_->Resume();
  ASSERT_TRUE(Readable(server_, 5000));
  char byte = 0;
  EXPECT_LE(recv(server_, &byte, 1, 0), 0);
}

TEST(NetProxyStart, NamesABadTarget) {
  auto proxy = NetProxy::Start("nowhere.invalid:1");
  ASSERT_FALSE(proxy.ok());
  EXPECT_NE(proxy.status().message().find("nowhere.invalid"), std::string::npos);
}

}  // namespace
}  // namespace tandem::netproxy
