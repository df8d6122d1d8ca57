// Which orchestrator a command talks to, whom it trusts, and as whom it comes: shared by `generate`
// and `bench`.
//
// Thread safety: plain values.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/flags/flag_set.h"
#include "common/security/tls_options.h"

namespace tandem::client {

struct OrchestratorFlags {
  std::string address = "127.0.0.1:50050";  // HOST:PORT
  security::TlsClientOptions tls;
  std::string token_file;  // empty: no token

  void AddTo(flags::FlagSet& flags);
  // INVALID_ARGUMENT naming the flag. A token goes in plaintext to this machine alone. Looks at no
  // file.
  absl::Status Validate() const;
};

}  // namespace tandem::client
