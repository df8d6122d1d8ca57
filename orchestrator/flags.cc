#include "orchestrator/flags.h"

#include <string>
#include <vector>

#include "common/base/address.h"
#include "common/base/status_macros.h"
#include "orchestrator/request_flags.h"

namespace tandem::orchestrator {
namespace {

// Empty: none.
absl::Status SetAddresses(absl::string_view flag, absl::string_view text,
                          std::vector<std::string>& addresses) {
  addresses.clear();
  if (text.empty()) return absl::OkStatus();
  TANDEM_ASSIGN_OR_RETURN(const std::vector<base::Address> list,
                          base::ParseAddressList(flag, text));
  for (const base::Address& address : list) addresses.push_back(address.ToString());
  return absl::OkStatus();
}

void AddPeers(Options& options, flags::FlagSet& flags) {
  flags.Group("Targets and drafts");
  flags.Custom(
      "target",
      [&options](absl::string_view text) {
        return SetAddresses("--target", text, options.target_addresses);
      },
      "HOST:PORT[,HOST:PORT...] of the target services. Each address of a host name is a separate "
      "target. Required");
  flags.Custom(
      "draft",
      [&options](absl::string_view text) {
        return SetAddresses("--draft", text, options.draft_addresses);
      },
      "HOST:PORT[,HOST:PORT...] of the draft services. Default: no draft");
  flags.Duration("resolve-every", &options.resolve_every, absl::Milliseconds(100), absl::Hours(1),
                 "how often the host names of targets and drafts are resolved again");
  flags.Text(
      "tokenizer", &options.tokenizer_directory,
      "a directory with the models' tokenizer.json, a GGUF file, or a model of the Hugging Face "
      "hub: OWNER/NAME[@REVISION] or OWNER/NAME:FILE.gguf. Required");
  flags.Text("chat-template", &options.chat_template_file,
             "file with the Jinja chat template. Default: the one of --tokenizer");
  flags.Text(
      "client-id", &options.client_id,
      "name of this orchestrator to its peers, unique per process. Default: host name, process id "
      "and a number");
  flags.Text(
      "peer-tls-ca", &options.peer_tls.ca,
      "PEM file with the authorities of the targets' and drafts' certificates. Default: plaintext");
  flags.Text("peer-tls-certificate", &options.peer_tls.certificate,
             "PEM file with the client certificate, for mutual TLS");
  flags.Text("peer-tls-key", &options.peer_tls.key, "PEM file with the key of that certificate");
  flags.Text("peer-tls-server-name", &options.peer_tls.server_name,
             "name in their certificates. Default: the host of each address");
}

}  // namespace

Flags::Flags() { server.listen = "127.0.0.1:50050"; }

void Flags::AddTo(flags::FlagSet& flags) {
  AddPeers(options, flags);
  AddRequestFlags(options, flags);
  flags.Text("drafter", &options.drafter,
             "default drafter of requests: one that the draft services offer; or several, "
             "separated by commas, or auto for all of them: each text then uses the one with the "
             "highest throughput. Default: the draft service's");
  server.AddTo(flags,
               "time after --drain-delay for running requests to finish and for clients to read "
               "the rest; a client that does not read is given at most --reader-patience");
  http.AddTo(flags, &options.served_model_name);
  flags.Group("Callers and the end");
  flags.Text("token-file", &options.token_file,
             "file with the tokens of the callers, one per line; read again when it changes. "
             "Default: no token is required");
  flags.Duration(
      "drain-delay", &drain_delay, absl::ZeroDuration(), absl::Minutes(10),
      "time after SIGTERM during which the service reports not ready but still takes requests, so "
      "that DNS, proxies and load balancers notice");
}

absl::Status Flags::Validate() const {
  if (options.target_addresses.empty()) {
    return absl::InvalidArgumentError("--target=HOST:PORT[,HOST:PORT...] is required");
  }
  if (options.tokenizer_directory.empty()) {
    return absl::InvalidArgumentError(
        "--tokenizer=MODEL is required: the models' directory with tokenizer.json");
  }
  TANDEM_RETURN_IF_ERROR(server.Validate());
  TANDEM_RETURN_IF_ERROR(http.Validate());
  return options.Validate();
}

}  // namespace tandem::orchestrator
