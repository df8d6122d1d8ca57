// What a process is told about encryption: files in PEM, nothing else. All empty is plaintext.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tandem::security {

// Of a port that is served.
struct TlsServerOptions {
  std::string certificate;  // the server's own, then those between it and its authority
  std::string key;          // of the first certificate; unencrypted
  // Whoever connects must show a certificate of one of these authorities. Empty: nobody is asked
  // for one.
  std::string client_ca;

  bool enabled() const { return !certificate.empty(); }
  // "plaintext", "tls", "mutual tls".
  absl::string_view Describe() const;
  // INVALID_ARGUMENT: what does not go together, by its flags: --tls-key. Looks at no file.
  absl::Status Validate() const;
};

// Of a channel.
struct TlsClientOptions {
  std::string ca;           // the server's authorities
  std::string certificate;  // the client's own, for servers that ask for one; empty: none
  std::string key;
  // The name that the server's certificate must have; empty: the host of the address.
  std::string server_name;

  bool enabled() const { return !ca.empty(); }
  absl::string_view Describe() const;
  // As above. `prefix`: what its flags begin with.
  absl::Status Validate(absl::string_view prefix = "--tls-") const;
};

}  // namespace tandem::security
