// gRPC's credentials from files that may be replaced while the process runs.
//
// Server: the files are looked at with each new connection. Right files are in force from that
// connection on. Wrong ones (a key of another certificate, an expired certificate, half a file) are
// logged once, and what was in force stays. Client: gRPC's own watcher looks every second;
// docs/adr/2026-11-21-tls-and-tokens.md says what it cannot do. Neither touches standing
// connections: their calls go on, under the certificate that the connection was made with.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "absl/status/statusor.h"
#include "common/security/tls_options.h"

namespace tandem::security {

// Plaintext when not enabled(). Errors as TlsServerOptions::Validate, ReadIdentity,
// ReadAuthorities. Handshakes that fail are logged from the first use on (grpc_log.h).
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsServerOptions& options);

// The same for channels. The server's certificate must be of one of the authorities, and must have
// the name that is asked for, as a DNS name or IP address.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsClientOptions& options);

}  // namespace tandem::security
