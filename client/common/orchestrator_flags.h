// The flags of a command for its orchestrator: address, trusted authorities and credentials.
//
// The environment counts where a flag says nothing: TANDEM_ORCHESTRATOR for --orchestrator;
// TANDEM_TOKEN_FILE, or the token itself in TANDEM_TOKEN, for --token-file.
//
// Thread safety: plain values. AddTo reads the environment.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/flags/flag_set.h"
#include "common/security/tls_options.h"

namespace tandem::client {

struct OrchestratorFlags {
  std::string address = "127.0.0.1:50050";  // HOST:PORT
  security::TlsClientOptions tls;
  std::string token_file;  // of the flag; empty: not given
  std::string token;       // of the environment; counts where TokenFile is empty; empty: none

  void AddTo(flags::FlagSet& flags);
  // For a command that works without an orchestrator, too: `address` is empty unless the flag,
  // whose help this is, is given. The environment names none.
  void AddOptionalTo(flags::FlagSet& flags, absl::string_view help);
  // The file to take the token from; empty: from none. INVALID_ARGUMENT: the environment has both.
  absl::StatusOr<std::string> TokenFile() const;
  // INVALID_ARGUMENT names the flag. A token is sent in plaintext to this machine only. Opens no
  // file.
  absl::Status Validate() const;

 private:
  void AddRest(flags::FlagSet& flags, absl::string_view help);
};

}  // namespace tandem::client
