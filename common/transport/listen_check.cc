#include "common/transport/listen_check.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/address.h"
#include "common/base/status_macros.h"

namespace tandem::transport {
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

absl::Status CannotListen(const ListenAddress& where, absl::string_view why) {
  return absl::UnavailableError(
      absl::StrCat(where.flag, ": cannot listen on ", where.address, ": ", why));
}

void Set(int socket, int level, int name, int value) {
  setsockopt(socket, level, name, &value, sizeof(value));
}

// 0, or an errno. The socket is added to `sockets`.
int Listen(const addrinfo& at, std::vector<int>& sockets) {
  const int socket = ::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return errno;
  sockets.push_back(socket);
  // As gRPC does: connections of a server that has ended are no obstacle.
  Set(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (at.ai_family == AF_INET6) Set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  const bool listens =
      bind(socket, at.ai_addr, at.ai_addrlen) == 0 && listen(socket, /*backlog=*/1) == 0;
  return listens ? 0 : errno;
}

absl::Status Check(const ListenAddress& where, std::vector<int>& sockets) {
  TANDEM_ASSIGN_OR_RETURN(const base::Address address,
                          base::ParseAddress(where.flag, where.address, base::AddressUse::kListen));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) {
    return CannotListen(
        where, absl::StrCat(gai_strerror(error), ": name a host or an address of this machine"));
  }
  const absl::Cleanup free_found = [found] { freeaddrinfo(found); };
  bool any = false;
  int problem = 0;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int failed = Listen(*at, sockets);
    if (failed == EADDRINUSE) return CannotListen(where, Advice(failed));
    any = any || failed == 0;
    if (failed != 0) problem = failed;  // one of several may be missing: a machine without IPv6
  }
  return any ? absl::OkStatus() : CannotListen(where, Advice(problem));
}

}  // namespace

absl::Status CheckListenAddresses(const std::vector<ListenAddress>& addresses) {
  std::vector<int> sockets;
  const absl::Cleanup close_all = [&sockets] {
    for (const int socket : sockets) close(socket);
  };
  for (const ListenAddress& where : addresses) TANDEM_RETURN_IF_ERROR(Check(where, sockets));
  return absl::OkStatus();
}

}  // namespace tandem::transport
