#include "common/security/tls_options.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tandem::security {
namespace {

absl::string_view Kind(bool enabled, bool mutual) {
  if (!enabled) return "plaintext";
  return mutual ? "mutual tls" : "tls";
}

absl::Status Needs(absl::string_view prefix, absl::string_view flag, absl::string_view needed) {
  return absl::InvalidArgumentError(absl::StrCat(prefix, flag, " needs ", prefix, needed));
}

// Of both, or neither.
absl::Status CheckIdentity(const std::string& certificate, const std::string& key,
                           absl::string_view prefix) {
  if (certificate.empty() == key.empty()) return absl::OkStatus();
  return certificate.empty() ? Needs(prefix, "key", "certificate")
                             : Needs(prefix, "certificate", "key");
}

}  // namespace

absl::string_view TlsServerOptions::Describe() const { return Kind(enabled(), !client_ca.empty()); }

absl::Status TlsServerOptions::Validate() const {
  constexpr absl::string_view kPrefix = "--tls-";
  TANDEM_RETURN_IF_ERROR(CheckIdentity(certificate, key, kPrefix));
  if (client_ca.empty() || !certificate.empty()) return absl::OkStatus();
  return Needs(kPrefix, "client-ca", "certificate: in plaintext nobody shows one");
}

absl::string_view TlsClientOptions::Describe() const {
  return Kind(enabled(), !certificate.empty());
}

absl::Status TlsClientOptions::Validate(absl::string_view prefix) const {
  TANDEM_RETURN_IF_ERROR(CheckIdentity(certificate, key, prefix));
  if (!ca.empty() || (certificate.empty() && server_name.empty())) return absl::OkStatus();
  return Needs(prefix, certificate.empty() ? "server-name" : "certificate",
               "ca: without it the connection is plaintext");
}

}  // namespace tandem::security
