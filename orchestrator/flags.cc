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
      "HOST:PORT of the target services, with commas between; at least one. Each address that a "
      "host "
      "name has is a target of its own");
  flags.Custom(
      "draft",
      [&options](absl::string_view text) {
        return SetAddresses("--draft", text, options.draft_addresses);
      },
      "HOST:PORT of the draft services, with commas between; the target alone when absent");
  flags.Duration("resolve-every", &options.resolve_every, absl::Milliseconds(100), absl::Hours(1),
                 "host names of targets and drafts are looked up again so often");
  flags.Text(
      "tokenizer", &options.tokenizer_directory,
      "directory with the models' tokenizer.json, or a GGUF file, or a name of the Hugging Face "
      "hub, OWNER/NAME[@REVISION] or OWNER/NAME:FILE.gguf; needed");
  flags.Text("chat-template", &options.chat_template_file,
             "file with the Jinja template of conversations. Default: that of --tokenizer");
  flags.Text(
      "client-id", &options.client_id,
      "name towards the peers, another one for each process; host, process and a number when "
      "absent");
  flags.Text(
      "peer-tls-ca", &options.peer_tls.ca,
      "PEM file with the authorities of the targets' and drafts' certificates; plaintext when "
      "absent");
  flags.Text("peer-tls-certificate", &options.peer_tls.certificate,
             "PEM file with the certificate to show them; none when absent");
  flags.Text("peer-tls-key", &options.peer_tls.key, "PEM file with its key");
  flags.Text("peer-tls-server-name", &options.peer_tls.server_name,
             "the name in their certificates; the host of each address when absent");
}

}  // namespace

Flags::Flags() { server.listen = "127.0.0.1:50050"; }

void Flags::AddTo(flags::FlagSet& flags) {
  AddPeers(options, flags);
  AddRequestFlags(options, flags);
  flags.Text("drafter", &options.drafter,
             "of requests that name none: one that the drafts offer; several, separated by commas, "
             "or auto, all of them: then each text gets the one with the most tokens a time; the "
             "draft service's default when absent");
  server.AddTo(flags,
               "after --drain-delay running requests may finish within this, and clients may read "
               "what has ended. One that is stuck uses up the whole of it, or of --reader-patience "
               "if that is less");
  http.AddTo(flags, &options.served_model_name);
  flags.Group("Callers and the end");
  flags.Text("token-file", &options.token_file,
             "file with the tokens of those who may call, one a line; looked at again when it "
             "changes; everybody may call when absent");
  flags.Duration(
      "drain-delay", &drain_delay, absl::ZeroDuration(), absl::Minutes(10),
      "after SIGTERM it is not ready, but takes requests for this long: until those who ask "
      "by name, a proxy or a load balancer know that it goes");
}

absl::Status Flags::Validate() const {
  if (options.target_addresses.empty()) {
    return absl::InvalidArgumentError("--target=HOST:PORT[,HOST:PORT...] is needed");
  }
  if (options.tokenizer_directory.empty()) {
    return absl::InvalidArgumentError(
        "--tokenizer=MODEL is needed: the one with the models' tokenizer.json");
  }
  TANDEM_RETURN_IF_ERROR(server.Validate());
  TANDEM_RETURN_IF_ERROR(http.Validate());
  return options.Validate();
}

}  // namespace tandem::orchestrator
