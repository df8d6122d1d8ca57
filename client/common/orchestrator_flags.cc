#include "client/common/orchestrator_flags.h"

#include <arpa/inet.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/base/address.h"
#include "common/base/status_macros.h"

namespace tandem::client {
namespace {

bool OnThisMachine(const std::string& host) {
  in_addr v4 = {};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  return host == "localhost" || host == "::1";
}

// Empty: it is not set.
std::string OfEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

constexpr char kAddress[] = "TANDEM_ORCHESTRATOR";
constexpr char kToken[] = "TANDEM_TOKEN";
constexpr char kTokenFile[] = "TANDEM_TOKEN_FILE";

}  // namespace

void OrchestratorFlags::AddTo(flags::FlagSet& flags) {
  if (const std::string given = OfEnvironment(kAddress); !given.empty()) address = given;
  AddRest(flags, absl::StrCat("address of the orchestrator, HOST:PORT, or in ", kAddress));
}

void OrchestratorFlags::AddOptionalTo(flags::FlagSet& flags, absl::string_view help) {
  address.clear();
  AddRest(flags, help);
}

void OrchestratorFlags::AddRest(flags::FlagSet& flags, absl::string_view help) {
  token = OfEnvironment(kToken);
  flags.Group("Orchestrator");
  flags.Text("orchestrator", &address, help);
  flags.Text("tls-ca", &tls.ca,
             "PEM file with the authorities of the orchestrator's certificate. Default: plaintext");
  flags.Text("tls-certificate", &tls.certificate,
             "PEM file with the client certificate, for mutual TLS");
  flags.Text("tls-key", &tls.key, "PEM file with the key of that certificate");
  flags.Text("tls-server-name", &tls.server_name,
             "name in the orchestrator's certificate. Default: its host");
  flags.Text("token-file", &token_file,
             absl::StrCat("file whose first token is sent as 'authorization: Bearer'. Default: ",
                          kTokenFile, ", or the token in ", kToken));
}

absl::StatusOr<std::string> OrchestratorFlags::TokenFile() const {
  if (!token_file.empty()) return token_file;
  std::string file = OfEnvironment(kTokenFile);
  if (file.empty() || token.empty()) return file;
  return absl::InvalidArgumentError(
      absl::StrCat("the environment has ", kTokenFile, " and ", kToken, ": set only one of them"));
}

absl::Status OrchestratorFlags::Validate() const {
  const bool by_environment = address == OfEnvironment(kAddress);
  TANDEM_ASSIGN_OR_RETURN(
      const base::Address parsed,
      base::ParseAddress(by_environment ? kAddress : "--orchestrator", address));
  TANDEM_RETURN_IF_ERROR(tls.Validate());
  TANDEM_ASSIGN_OR_RETURN(const std::string file, TokenFile());
  if ((file.empty() && token.empty()) || tls.enabled()) return absl::OkStatus();
  if (OnThisMachine(parsed.host)) return absl::OkStatus();
  const char* const why =
      "needs --tls-ca=FILE: a token in plaintext leaves this machine for everybody to read";
  if (!token_file.empty()) return flags::BadFlag("token-file", token_file, why);
  return absl::InvalidArgumentError(absl::StrCat(file.empty() ? kToken : kTokenFile, " ", why));
}

}  // namespace tandem::client
