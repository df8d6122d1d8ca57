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
  // Health (gRPC) and GET /metrics (HTTP/1.1), in plaintext, for the pod and for monitoring; empty:
  // not served.
  std::string admin_address;
  // The answer to GET /metrics on the admin address, in Prometheus' text format. The host adds the
  // expiry of the process's certificates (certificate_expiry.h). Called on the admin port's thread
  // until Drain returns. Empty: no metrics (404).
  std::function<std::string()> metrics;
  std::vector<grpc::Service*> services;  // not owned; must outlive the host
  std::vector<std::string>
      health_names;  // as in grpc.health.v1, e.g. tandem.internal.v1.Target; "" is always there
  bool reflection = true;

  // Maximum open connections of each port, at least 1; more are closed immediately. File
  // descriptors limit them, too: some of the process's descriptors are reserved for everything
  // else.
  uint32_t max_connections = 4096;
  // Maximum open calls per connection, at least 1; more wait at the client.
  uint32_t max_calls_per_connection = 4096;
  // MiB for gRPC's connections and messages in transit, of each port; at least 64. Near the limit
  // gRPC reads less, and finally closes connections.
  uint32_t max_network_mib = 512;
  // gRPC refuses a longer message with RESOURCE_EXHAUSTED, which callers treat as "try again". So a
  // service with a limit allows more here, and refuses longer messages itself, naming the limit.
  size_t max_message_bytes = messages::kMaxMessageBytes;
  // A connection without a call is closed after this, at least 1 s; at the admin port after a
  // minute. Both ports close connections that do not finish a handshake within 10 s or do not
  // answer a ping within 5 s. Pings are sent every 10 s.
  absl::Duration max_connection_idle = absl::Minutes(5);
  // How often the host connects to its own main port. It is not alive while the port does not
  // answer within this time, and not ready while the port refuses connections. It checks as often,
  // or more, for connections that send endless frames without messages (connection_watch.h).
  absl::Duration ask_every = absl::Seconds(5);

  // INVALID_ARGUMENT naming each bad value. Does not check files or ports.
  absl::Status Validate() const;
};

// Both ports refuse compressed messages (UNIMPLEMENTED), because a small one may become a large
// one. More than 16 concurrent calls of reflection get RESOURCE_EXHAUSTED.
//
// grpc.health.v1 on both ports answers three kinds of name: `liveness` (SERVING from start to end,
// unless the main port accepts no connection or SetAlive says so), "" and the health_names
// (NOT_SERVING until SetReady(true), and again while draining, or while the main port refuses
// connections because all are taken).
//
// Thread-safe.
class ServerHost {
 public:
  // INVALID_ARGUMENT: an address that is not HOST:PORT. UNAVAILABLE names the one that cannot be
  // bound. Errors of `tls` are MakeServerCredentials', and name the file. The process's IdleGuard
  // lives with the host.
  static absl::StatusOr<std::unique_ptr<ServerHost>> Start(ServerHostOptions options);
  // Drains without grace.
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

  // Not ready from now on. Stops listening, and tells connected clients to send new calls elsewhere
  // (GOAWAY). Open calls and the admin port continue. Does not wait; Drain follows.
  void Refuse() TANDEM_EXCLUDES(drain_mutex_);

  // Refuses new calls; open ones may finish within `grace`, then they are cancelled. Returns when
  // all have ended. A second call only waits for the first.
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
