// Serves HTTP/1.1 on an address, with TLS or without: one thread for all connections.
//
// What a client may hold is bounded: connections (transport/acceptor.h), time (Patience), bytes of
// a head and of a body (ReaderLimits), and bodies of all clients together (Handler::Hold). Answers
// wait in memory for clients that do not read; whoever writes them hears how far that is (reply.h).
//
// Slow clients give way. When all connections are taken, a new one takes the place of the one that
// was silent the longest and has asked nothing. When there is no room for a body, the one of the
// same address of which nothing came for the longest is refused.
//
// Not here: HTTP/2, compression, ranges, and names of hosts. A proxy in front has them.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/address.h"
#include "common/concurrency/mutex.h"
#include "common/http/connection.h"
#include "common/http/handler.h"
#include "common/http/mailbox.h"
#include "common/security/tls_options.h"

namespace tandem::transport {
class Acceptor;
class PortWatch;
}  // namespace tandem::transport

namespace tandem::http {

struct PortOptions {
  base::Address address;           // port 0: any free one
  security::TlsServerOptions tls;  // plaintext when not enabled()
  size_t max_connections = 4096;   // open at once
  ReaderLimits limits;
  Patience patience;
  absl::Duration ask_every = absl::Seconds(5);  // how often admits() is found out
};

// Thread-safe.
class Port {
 public:
  // `handler` outlives the port. UNAVAILABLE names an address that cannot be bound; errors of `tls`
  // are SocketTls::Create's.
  static absl::StatusOr<std::unique_ptr<Port>> Start(const PortOptions& options, Handler& handler);
  // Drains with no grace.
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  int port() const { return port_; }
  // False: when the port last connected to itself, the connection was refused because all are taken
  // and have asked something, or was not accepted at all.
  bool admits() const { return admits_; }

  // Listens no more, and closes each connection with its present answer. Returns at once.
  void Refuse() TANDEM_EXCLUDES(mutex_);
  // Refuses; answers may finish within `grace`, and then they are cut. Returns when all connections
  // are gone, and no function of the handler or of a listener runs any more.
  void Drain(absl::Duration grace) TANDEM_EXCLUDES(mutex_);

 private:
  class Loop;
  Port(std::unique_ptr<Loop> loop, std::shared_ptr<Mailbox> mailbox,
       std::unique_ptr<transport::Acceptor> acceptor, absl::Duration ask_every);

  const std::unique_ptr<Loop> loop_;
  const std::shared_ptr<Mailbox> mailbox_;
  const int port_;
  std::atomic<bool> admits_ = true;
  concurrency::Mutex mutex_;
  std::unique_ptr<transport::Acceptor> acceptor_ TANDEM_GUARDED_BY(mutex_);  // null: no more
  std::unique_ptr<transport::PortWatch> watch_ TANDEM_GUARDED_BY(mutex_);    // asks acceptor_
  std::thread thread_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::http
