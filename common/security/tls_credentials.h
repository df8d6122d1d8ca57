// gRPC's credentials out of files that may be replaced while the process runs.
//
// Server: the files are looked at with each new connection. What is right is in force from that connection on;
// what is not (a key of another certificate, one that has expired, half a file) is logged once, and what was
// in force stays. Client: gRPC's own watcher looks every second; see the ADR for what it cannot do. Neither
// touches a connection that is there already: its calls go on, under the certificate it was made with.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "absl/status/statusor.h"
#include "common/security/tls_options.h"

namespace tandem::security {

// Plaintext when not enabled(). Errors as TlsServerOptions::Validate, ReadIdentity, ReadAuthorities.
// Handshakes that fail are logged from the first use on (grpc_log.h).
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsServerOptions& options);

// The same for channels. The server's certificate must be of one of the authorities, and have the name that
// is asked for as a DNS name or IP address.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsClientOptions& options);

}  // namespace tandem::security
