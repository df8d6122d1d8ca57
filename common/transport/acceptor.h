// Accepts the connections of a port and hands them to gRPC.
//
// gRPC 1.51 stops listening for good when a connection comes while no descriptor is free, and
// nothing begins it again. So our own thread accepts: it waits until a descriptor is free,
// refuses connections beyond a limit (connection_limit.h) unless an older one gives way, and
// answers when it is asked whether the port still lives.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/listen.h"

namespace tandem::transport {

struct AcceptorOptions {
  std::vector<base::Socket> listeners;  // at least one; base::Listen makes them
  size_t max_connections = 0;           // open at once; at least 1
  // Takes over a connected socket that does not block, and closes it in the end. Called on the
  // acceptor's thread.
  std::function<void(int socket)> take;
  // Ends a connection that `take` got, if that loses nothing, in favour of one for which there is
  // no room. Returns its descriptor, which is closed or soon will be, or -1. Called on the
  // acceptor's thread. May be empty.
  std::function<int()> make_room;
};

enum class PortState {
  kAdmits,   // a connection that comes is served
  kRefuses,  // it is closed at once, for want of room
  kSilent,   // nothing becomes of it
};

// Thread-safe.
class Acceptor {
 public:
  // UNAVAILABLE: no descriptor is left for it.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Start(AcceptorOptions options);
  // Listens no more. Returns when `take` runs no more. Nobody may be in Ask.
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  int port() const { return port_; }

  // Connects to the port as any client does, and waits for an answer. kSilent: none came within
  // `patience`. One caller at a time.
  PortState Ask(absl::Duration patience);

 private:
  class Loop;
  Acceptor(std::unique_ptr<Loop> loop, int port, int stop);

  const std::unique_ptr<Loop> loop_;
  const int port_;
  const int stop_;  // an eventfd that ends the loop
  std::thread thread_;
};

}  // namespace tandem::transport
