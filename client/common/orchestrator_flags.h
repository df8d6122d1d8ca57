// The flags of a command for its orchestrator: address, trusted authorities and credentials.
// `generate` and `bench` share them.
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
  // INVALID_ARGUMENT names the flag. A token is sent in plaintext to this machine only. Opens no
  // file.
  absl::Status Validate() const;
};

}  // namespace tandem::client
