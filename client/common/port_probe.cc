#include "client/common/port_probe.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "common/base/address.h"

namespace tandem::client {
namespace {

bool Connects(const addrinfo& at, absl::Duration patience) {
  const int socket = ::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return false;
  const absl::Cleanup close_socket = [socket] { close(socket); };
  if (connect(socket, at.ai_addr, at.ai_addrlen) == 0) return true;
  if (errno != EINPROGRESS) return false;
  pollfd polled{socket, POLLOUT, 0};
  int error = 0;
  socklen_t size = sizeof(error);
  return poll(&polled, 1, static_cast<int>(absl::ToInt64Milliseconds(patience))) == 1 &&
         getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

}  // namespace

bool SomebodyListens(const std::string& address, absl::Duration patience) {
  const absl::StatusOr<base::Address> parsed = base::ParseAddress("address", address);
  if (!parsed.ok()) return false;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(parsed->host.c_str(), std::to_string(parsed->port).c_str(), &hints, &found) !=
      0) {
    return false;
  }
  const absl::Cleanup free_found = [found] { freeaddrinfo(found); };
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    if (Connects(*at, patience)) return true;
  }
  return false;
}

}  // namespace tandem::client
