#include "common/base/listen.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"

namespace tandem::base {
namespace {

// What is wrong, and what would be right.
std::string Advice(int error) {
  switch (error) {
    case EADDRINUSE:
      return "the port is taken: name a free one, or end what listens there (`ss -ltnp` tells)";
    case EADDRNOTAVAIL:
      return "the address is not one of this machine's: name one that is, or 0.0.0.0 for all";
    case EACCES:
      return "this process may not open the port: name one from 1024 on";
    default:
      return std::strerror(error);
  }
}

absl::Status CannotListen(const Address& address, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address.ToString(), ": ", why));
}

void SetPort(sockaddr& address, int port) {
  const in_port_t in_order = htons(static_cast<uint16_t>(port));
  if (address.sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = in_order;
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_port = in_order;
  }
}

// At all addresses of `host`; `address` is what errors name.
absl::StatusOr<std::vector<Socket>> ListenAt(const std::string& host, const Address& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error =
          getaddrinfo(host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
      error != 0) {
    return CannotListen(
        address, absl::StrCat(gai_strerror(error), ": name a host or an address of this machine"));
  }
  const absl::Cleanup free_found = [found] { freeaddrinfo(found); };
  std::vector<Socket> listeners;
  int port = address.port;
  std::string why = "no address";
  for (addrinfo* one = found; one != nullptr; one = one->ai_next) {
    Socket socket(::socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (socket.fd() < 0) {  // a machine without IPv6, or no descriptor
      why = Advice(errno);
      continue;
    }
    socket.SetOption(SOL_SOCKET, SO_REUSEADDR, 1);
    socket.SetOption(IPPROTO_TCP, TCP_NODELAY, 1);
    if (one->ai_family == AF_INET6) socket.SetOption(IPPROTO_IPV6, IPV6_V6ONLY, 0);
    SetPort(*one->ai_addr, port);
    if (bind(socket.fd(), one->ai_addr, one->ai_addrlen) != 0 ||
        listen(socket.fd(), SOMAXCONN) != 0) {
      if (errno == EADDRINUSE) return CannotListen(address, Advice(errno));
      why = Advice(errno);
      continue;
    }
    port = PortOf(BoundAddress(socket));
    listeners.push_back(std::move(socket));
  }
  if (listeners.empty()) return CannotListen(address, why);
  return listeners;
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

void Socket::SetOption(int level, int name, int value) const {
  setsockopt(fd_, level, name, &value, sizeof(value));
}

absl::StatusOr<std::vector<Socket>> Listen(const Address& address) {
  if (address.host != "0.0.0.0" && address.host != "::") return ListenAt(address.host, address);
  auto both = ListenAt("::", address);
  if (both.ok()) return both;
  return ListenAt("0.0.0.0", address);
}

sockaddr_storage BoundAddress(const Socket& socket) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  TANDEM_CHECK(getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&bound), &size) == 0)
      << std::strerror(errno);
  return bound;
}

std::string PeerName(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "gone";
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET6) {
    const in6_addr& host = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    if (!IN6_IS_ADDR_V4MAPPED(&host)) {
      inet_ntop(AF_INET6, &host, text.data(), text.size());
      return absl::StrCat("ipv6:%5B", text.data(), "%5D:", PortOf(address));
    }
    inet_ntop(AF_INET, &host.s6_addr[12], text.data(), text.size());
  } else {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text.data(),
              text.size());
  }
  return absl::StrCat("ipv4:", text.data(), ":", PortOf(address));
}

int PortOf(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace tandem::base
