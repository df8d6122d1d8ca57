#include "client/common/orchestrator_flags.h"

#include <arpa/inet.h>

#include "common/base/address.h"
#include "common/base/status_macros.h"

namespace tandem::client {
namespace {

bool OnThisMachine(const std::string& host) {
  in_addr v4 = {};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  return host == "localhost" || host == "::1";
}

}  // namespace

void OrchestratorFlags::AddTo(flags::FlagSet& flags) {
  flags.Group("Orchestrator");
  flags.Text("orchestrator", &address, "its address, HOST:PORT");
  flags.Text("tls-ca", &tls.ca,
             "PEM file with the authorities of the orchestrator's certificate; without it "
             "the connection is plaintext");
  flags.Text("tls-certificate", &tls.certificate,
             "PEM file with a certificate of one's own, for orchestrators that ask for one");
  flags.Text("tls-key", &tls.key, "PEM file with its key");
  flags.Text("tls-server-name", &tls.server_name,
             "the name in the orchestrator's certificate; its host when absent");
  flags.Text("token-file", &token_file,
             "a file whose first token is sent as 'authorization: Bearer'");
}

absl::Status OrchestratorFlags::Validate() const {
  TANDEM_ASSIGN_OR_RETURN(const base::Address parsed,
                          base::ParseAddress("--orchestrator", address));
  TANDEM_RETURN_IF_ERROR(tls.Validate());
  if (token_file.empty() || tls.enabled()) return absl::OkStatus();
  if (OnThisMachine(parsed.host)) return absl::OkStatus();
  return flags::BadFlag(
      "token-file", token_file,
      "needs --tls-ca=FILE: a token in plaintext leaves this machine for everybody to "
      "read");
}

}  // namespace tandem::client
