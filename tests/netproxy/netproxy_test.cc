// A half-open link hides what it should: the soak test has such links, and nothing else would show
// that they do anything. Delays, stalls and resets show in the tests that use them
// (tests/integration).
#include "tests/netproxy/netproxy.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

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

  static void Send(int fd, const std::string& text) {
    ASSERT_EQ(send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }

  std::unique_ptr<NetProxy> proxy_;
  int listener_ = -1;
  int client_ = -1;
  int server_ = -1;
};

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

}  // namespace
}  // namespace tandem::netproxy
