// TLS for sockets that this project serves itself, where gRPC does not: OpenSSL over the files of a
// port, which may be replaced while the process runs (server_files.h).
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/security/server_files.h"
#include "common/security/tls_options.h"

struct ssl_st;
struct ssl_ctx_st;

namespace tandem::security {

// Frees it; the socket stays open.
struct FreeTls {
  void operator()(ssl_st* connection) const;
};
using TlsConnection = std::unique_ptr<ssl_st, FreeTls>;

// Used by one thread.
class SocketTls {
 public:
  // `options` are enabled(). Errors as TlsServerOptions::Validate, ServerFiles::Keep.
  static absl::StatusOr<std::unique_ptr<SocketTls>> Create(const TlsServerOptions& options);
  ~SocketTls();
  SocketTls(const SocketTls&) = delete;
  SocketTls& operator=(const SocketTls&) = delete;

  // The server's side of a connection that speaks TLS 1.2 or later over this socket. The handshake
  // comes next. Null: OpenSSL has no memory, or cannot use the files.
  TlsConnection Accept(int socket);

 private:
  explicit SocketTls(ServerFiles* files) : files_(files) {}
  void Renew();

  ServerFiles* const files_;
  std::shared_ptr<const ServerIdentity> identity_;  // what context_ was made of
  ssl_ctx_st* context_ = nullptr;
};

}  // namespace tandem::security
