#include "common/security/tls_options.h"

namespace tandem::security {
namespace {

absl::string_view Kind(bool enabled, bool mutual) {
  if (!enabled) return "plaintext";
  return mutual ? "mutual tls" : "tls";
}

}  // namespace

absl::string_view TlsServerOptions::Describe() const { return Kind(enabled(), !client_ca.empty()); }

absl::Status TlsServerOptions::Validate() const {
  if (certificate.empty() != key.empty()) {
    return absl::InvalidArgumentError(
        certificate.empty() ? "a TLS key needs its certificate: give both, or neither"
                            : "a TLS certificate needs its key: give both, or neither");
  }
  if (!client_ca.empty() && certificate.empty()) {
    return absl::InvalidArgumentError(
        "a client CA is of no use in plaintext: give a TLS certificate and its key, too");
  }
  return absl::OkStatus();
}

absl::string_view TlsClientOptions::Describe() const {
  return Kind(enabled(), !certificate.empty());
}

absl::Status TlsClientOptions::Validate() const {
  if (certificate.empty() != key.empty()) {
    return absl::InvalidArgumentError(
        certificate.empty() ? "a TLS key needs its certificate: give both, or neither"
                            : "a TLS certificate needs its key: give both, or neither");
  }
  if (ca.empty() && !(certificate.empty() && server_name.empty())) {
    return absl::InvalidArgumentError(
        "a TLS certificate or server name is of no use in plaintext: give the server's CA, too");
  }
  return absl::OkStatus();
}

}  // namespace tandem::security
