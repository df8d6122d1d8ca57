// Whom the `tandem` command trusts, and as whom it comes.
//
// Thread safety: plain values.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/flags.h"
#include "common/security/tls_options.h"

namespace tandem::client {

struct SecurityFlags {
  security::TlsClientOptions tls;
  std::string token_file;  // empty: no token

  void AddTo(FlagSet& flags);
  // `orchestrator`: its address. A token goes in plaintext to this machine alone. Looks at no file.
  absl::Status Validate(const std::string& orchestrator) const;
};

}  // namespace tandem::client
