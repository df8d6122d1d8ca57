// How many connections a port may have, where gRPC owns them and tells nobody of their end.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <vector>

#include "absl/time/time.h"

namespace tandem::transport {

// Thread safety: one thread.
class ConnectionLimit {
 public:
  // `max_connections`: those that are open at once. `max_descriptor`: a connection whose descriptor
  // is this or above is one too many. The system gives the lowest descriptor that is free, so what
  // is above stays in reserve for everything else in the process.
  ConnectionLimit(size_t max_connections, int max_descriptor)
      : max_connections_(max_connections), max_descriptor_(max_descriptor) {}

  // Whether this connected socket may stay. It counts until somebody closes it. False: the caller
  // closes it.
  bool Admit(int socket, absl::Time now);
  // Whether Admit would say yes.
  bool HasRoom(int socket, absl::Time now);
  // It was closed: room for another one at once.
  void Forget(int socket);

 private:
  // What makes an open socket different from all others.
  struct Connection {
    int socket = -1;
    ino_t inode = 0;
  };

  // Looks at so many, from next_ on.
  void ForgetClosed(size_t most);

  const size_t max_connections_;
  const int max_descriptor_;
  std::vector<Connection> open_;  // and some that were closed since the last look
  absl::Time looked_ = absl::InfinitePast();
  size_t next_ = 0;
};

// What makes an open socket different from all others. 0: it is closed.
ino_t InodeOf(int socket);

// Descriptors that this process may have, now.
int MaxDescriptors();
// Of these, the part that connections leave alone: for files, peers, and ports that are asked
// whether they live.
int ReservedDescriptors(int max_descriptors);

}  // namespace tandem::transport
