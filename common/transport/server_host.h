// Serves a process's services: listening, health, reflection, shutdown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/concurrency/mutex.h"
#include "common/messages/limits.h"
#include "common/security/tls_options.h"

namespace grpc {
class Channel;
class Service;
class Server;
}  // namespace grpc

namespace tandem::admin {
class AdminPort;
}

namespace tandem::transport {

class Acceptor;
class ConnectionWatch;
class IdleGuard;
class PortWatch;
enum class PortState;

struct ServerHostOptions {
  std::string listen_address;      // HOST:PORT; port 0: any free one
  security::TlsServerOptions tls;  // of that address alone; the admin address is always plaintext
  // Health (gRPC) and GET /metrics (HTTP/1.1), plaintext, for the pod itself and who watches it;
  // empty: none.
  std::string admin_address;
  // What GET /metrics on the admin address answers, in Prometheus' text format. The host adds until
  // when the process's certificates are good (certificate_expiry.h). Called on the admin port's
  // thread until Drain returns. Empty: there are none (404).
  std::function<std::string()> metrics;
  std::vector<grpc::Service*> services;  // not owned; must outlive the host
  std::vector<std::string>
      health_names;  // as in grpc.health.v1, e.g. tandem.internal.v1.Target; "" is always there
  bool reflection = true;

  // Connections that each port has open at once; at least 1. Those beyond them are closed at once.
  // Descriptors bound them, too: a part of what the process may have is kept for everything else.
  uint32_t max_connections = 4096;
  // Calls that a connection has open at once; at least 1. Those beyond them wait at the client.
  uint32_t max_calls_per_connection = 4096;
  // MiB that gRPC takes for connections and for messages on their way, of each port; at least 64.
  // Near it gRPC reads less, and closes connections in the end.
  uint32_t max_network_mib = 512;
  // gRPC refuses a longer message by RESOURCE_EXHAUSTED, which callers take for "try again". So a
  // service that takes large ones allows more here than it takes, and says itself what is too long.
  size_t max_message_bytes = messages::kMaxMessageBytes;
  // A connection without a call is closed after this; at least 1 s. The admin port closes after a
  // minute. Of both ports: who does not finish a handshake within 10 s, or does not answer a ping
  // within 5 s, is closed. Pings go out every 10 s.
  absl::Duration max_connection_idle = absl::Minutes(5);
  // The host connects to its own main port so often. It is not alive while that does not answer
  // within the same time, and not ready while that refuses connections. It looks for connections
  // that bring frames without end and no messages (connection_watch.h) as often, or more.
  absl::Duration ask_every = absl::Seconds(5);

  // INVALID_ARGUMENT naming each bad value. Looks at no file, no port.
  absl::Status Validate() const;
};

// Both ports take no compressed messages (UNIMPLEMENTED): a small one may become a large one. Calls
// of reflection beyond 16 at once get RESOURCE_EXHAUSTED.
//
// grpc.health.v1 on both ports answers three kinds of name: `liveness` (SERVING from start to end,
// unless the main port accepts no connection or SetAlive says so), "" and the health_names
// (NOT_SERVING until SetReady(true), and again while draining, or while the main port refuses
// connections because all are taken).
//
// Thread-safe.
class ServerHost {
 public:
  // INVALID_ARGUMENT: an address that is no HOST:PORT. UNAVAILABLE names the one that cannot be
  // bound. Errors of `tls` are MakeServerCredentials', and name the file. The process's IdleGuard
  // lives with the host.
  static absl::StatusOr<std::unique_ptr<ServerHost>> Start(ServerHostOptions options);
  // Drains with no grace.
  ~ServerHost();
  ServerHost(const ServerHost&) = delete;
  ServerHost& operator=(const ServerHost&) = delete;

  // A channel to this server that uses no socket. Holds the process's IdleGuard while it lives. Its
  // calls fail once the server has ended.
  std::shared_ptr<grpc::Channel> InProcessChannel();
  int port() const { return port_; }
  int admin_port() const { return admin_port_; }  // 0: none

  void SetReady(bool ready);
  // For liveness: false once the process knows that it cannot recover by itself.
  void SetAlive(bool alive);

  // Not ready from now on. Listens no more, and tells connected clients to take new calls elsewhere
  // (GOAWAY). Open calls go on, and so does the admin port. Returns at once; Drain follows.
  void Refuse() TANDEM_EXCLUDES(drain_mutex_);

  // Refuses; open calls may finish within `grace`, then they are cancelled. Returns when all are
  // gone. A second call waits for the first, and does nothing else.
  void Drain(absl::Duration grace) TANDEM_EXCLUDES(drain_mutex_);

 private:
  explicit ServerHost(ServerHostOptions options);
  absl::Status Listen() TANDEM_EXCLUDES(drain_mutex_);
  absl::Status ListenForAdmin();
  void WatchPort() TANDEM_EXCLUDES(drain_mutex_);
  void SetHealth(const std::string& name, bool serving);
  void ShowAlive() TANDEM_EXCLUDES(health_mutex_);
  void ShowReady() TANDEM_EXCLUDES(health_mutex_);
  void OnPort(PortState state) TANDEM_EXCLUDES(health_mutex_);
  void RefuseLocked() TANDEM_REQUIRES(drain_mutex_);

  const ServerHostOptions options_;
  std::shared_ptr<IdleGuard> guard_;
  const std::unique_ptr<ConnectionWatch> connections_;  // of both ports
  std::unique_ptr<grpc::Server> admin_;
  std::unique_ptr<admin::AdminPort> admin_entry_;
  std::unique_ptr<grpc::Server> main_;
  concurrency::Mutex health_mutex_;
  bool alive_ TANDEM_GUARDED_BY(health_mutex_) = true;     // as SetAlive says
  bool ready_ TANDEM_GUARDED_BY(health_mutex_) = false;    // as SetReady says
  PortState port_state_ TANDEM_GUARDED_BY(health_mutex_);  // as watch_ says
  concurrency::Mutex drain_mutex_;
  std::unique_ptr<Acceptor> acceptor_ TANDEM_GUARDED_BY(drain_mutex_);  // null: it listens no more
  std::unique_ptr<PortWatch> watch_ TANDEM_GUARDED_BY(drain_mutex_);    // asks acceptor_
  bool drained_ TANDEM_GUARDED_BY(drain_mutex_) = false;
  // Shuts main_ down, which takes as long as calls are open.
  std::thread shutdown_ TANDEM_GUARDED_BY(drain_mutex_);
  concurrency::Mutex gone_mutex_;
  concurrency::CondVar all_gone_;
  bool gone_ TANDEM_GUARDED_BY(gone_mutex_) = false;
  int port_ = 0;
  int admin_port_ = 0;
};

}  // namespace tandem::transport
