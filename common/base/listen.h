// Sockets that listen on an address of this machine.
#pragma once

#include <sys/socket.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/address.h"

namespace tandem::base {

// Owns a descriptor. Thread safety: a plain value.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.Release()) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket();

  int fd() const { return fd_; }  // below 0: none
  int Release() { return std::exchange(fd_, -1); }
  // As setsockopt; an option that the system does not know is left alone.
  void SetOption(int level, int name, int value) const;

 private:
  int fd_;
};

// Listens at all addresses of a name, with the same port at each. 0.0.0.0 and [::] mean all
// addresses of the machine, those of IPv6 included, as they do for gRPC. The sockets do not block,
// and what is accepted inherits their options. UNAVAILABLE names the address, what is
// wrong and what would be right.
absl::StatusOr<std::vector<Socket>> Listen(const Address& address);

// Of a socket that is bound.
sockaddr_storage BoundAddress(const Socket& socket);
int PortOf(const sockaddr_storage& address);
// The other end of a connected socket, as gRPC calls it: "ipv4:10.0.0.7:41234",
// "ipv6:%5B::1%5D:41234"; "gone" if nobody is.
std::string PeerName(int socket);

}  // namespace tandem::base
