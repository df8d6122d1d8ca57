// Limits the connections of a port whose connections gRPC owns and closes without notice.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <vector>

#include "absl/time/time.h"

namespace tandem::transport {

// Not thread-safe: used on one thread.
class ConnectionLimit {
 public:
  // `max_connections`: limit of open connections. `max_descriptor`: connections with this
  // descriptor or a higher one are refused. The system assigns the lowest free descriptor, so the
  // higher ones stay in reserve for everything else in the process.
  ConnectionLimit(size_t max_connections, int max_descriptor)
      : max_connections_(max_connections), max_descriptor_(max_descriptor) {}

  // Whether this connected socket may stay; it then counts until it is closed. False: the caller
  // closes it.
  bool Admit(int socket, absl::Time now);
  // Whether Admit would return true.
  bool HasRoom(int socket, absl::Time now);
  // It was closed: another one may be admitted immediately.
  void Forget(int socket);

 private:
  // Identifies an open socket.
  struct Connection {
    int socket = -1;
    ino_t inode = 0;
  };

  // Checks this many, from next_ on.
  void ForgetClosed(size_t most);

  const size_t max_connections_;
  const int max_descriptor_;
  std::vector<Connection> open_;  // and some that were closed since the last look
  absl::Time looked_ = absl::InfinitePast();
  size_t next_ = 0;
};

// Identifies an open socket. 0: it is closed.
ino_t InodeOf(int socket);

// Descriptors that this process may have, now.
int MaxDescriptors();
// Of these, the number reserved from connections: for files, peers, and liveness checks of
// ports.
int ReservedDescriptors(int max_descriptors);

}  // namespace tandem::transport
