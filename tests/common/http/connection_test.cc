// How much of a connection is read in a turn of the loop, in which all others wait.
#include "common/http/connection.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>

#include "common/concurrency/system_clock.h"
#include "tests/common/http/port_fixture.h"

namespace tandem::http {
namespace {

size_t Unread(int socket) {
  int bytes = 0;
  EXPECT_EQ(ioctl(socket, FIONREAD, &bytes), 0);
  return static_cast<size_t>(bytes);
}

// Head, and beginning of a body without end: chunks of one byte, or one piece.
void ReadsLittleInATurn(const std::string& head, const std::string& more) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  const base::Socket client(ends[0]);
  client.SetOption(SOL_SOCKET, SO_SNDBUF, 4 << 20);
  TestHandler handler;
  ConnectionParts parts;
  parts.handler = &handler;
  parts.mailbox = std::make_shared<Mailbox>(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const concurrency::Instant now = concurrency::SteadyClock().Now();
  Connection connection(1, SocketStream(base::Socket(ends[1]), nullptr), "ipv4:10.0.0.7:1", parts,
                        now);
  ASSERT_EQ(send(client.fd(), head.data(), head.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(head.size()));
  std::string piece;
  while (piece.size() < 4096) piece += more;
  while (send(client.fd(), piece.data(), piece.size(), MSG_NOSIGNAL) > 0) {
  }
  const size_t all = Unread(connection.fd());
  ASSERT_GT(all, size_t{150} << 10) << "more than is read in a turn";
  size_t turns = 0;
  for (size_t left = all; left > 0; ++turns) {
    connection.OnReady(EPOLLIN, now);
    const size_t before = std::exchange(left, Unread(connection.fd()));
    ASSERT_LE(before - left, size_t{64} << 10);
    ASSERT_LT(left, before);
  }
  EXPECT_GE(turns, all / (size_t{64} << 10));
}

TEST(Connection, ReadsLittleOfABodyInATurn) {
  ReadsLittleInATurn("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n", "x");
}

TEST(Connection, ReadsLittleOfChunksInATurn) {
  ReadsLittleInATurn("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
                     "1\r\nx\r\n");
}

}  // namespace
}  // namespace tandem::http
