// A client of a plaintext port on this machine, on any of its loopback addresses, byte by byte.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace tandem::admin {

class PlainConnection {
 public:
  explicit PlainConnection(int port, const std::string& host = "127.0.0.1")
      : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = inet_addr(host.c_str());
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    const timeval patience{.tv_sec = 60};  // a hang becomes a failure
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  PlainConnection(PlainConnection&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), connected_(other.connected_) {}
  PlainConnection& operator=(PlainConnection&&) = delete;
  ~PlainConnection() {
    if (socket_ >= 0) close(socket_);
  }

  bool connected() const { return connected_; }

  // False: it was closed. What is read then tells why.
  bool Send(absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  void SendEnd() { shutdown(socket_, SHUT_WR); }

  // What comes next, in one piece; empty: the other side closed.
  std::string Read() {
    char bytes[4096];
    const ssize_t got = recv(socket_, bytes, sizeof(bytes), 0);
    EXPECT_GE(got, 0) << std::strerror(errno);
    return std::string(bytes, static_cast<size_t>(got > 0 ? got : 0));
  }

  // All that comes until the other side closes; with an error, what came before it.
  std::string ReadToEnd() {
    std::string all;
    char bytes[4096];
    ssize_t got = 0;
    while ((got = recv(socket_, bytes, sizeof(bytes), 0)) > 0) {
      all.append(bytes, static_cast<size_t>(got));
    }
    EXPECT_FALSE(got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) << "nobody closed it";
    return all;
  }

 private:
  int socket_;
  bool connected_ = false;
};

// The whole answer.
inline std::string Http(int port, absl::string_view request,
                        const std::string& host = "127.0.0.1") {
  PlainConnection connection(port, host);
  connection.Send(request);
  return connection.ReadToEnd();
}

}  // namespace tandem::admin
