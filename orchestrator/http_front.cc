#include "orchestrator/http_front.h"

#include <utility>

#include "absl/strings/str_split.h"
#include "common/base/address.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "common/process/process.h"
#include "orchestrator/generate/work_turns.h"

namespace tandem::orchestrator {

void HttpFlags::AddTo(flags::FlagSet& flags, std::string* model_name) {
  flags.Group("HTTP (OpenAI's API)");
  flags.Text("http-listen", &listen,
             "HOST:PORT to serve HTTP/1.1 on, with the encryption, tokens and limits of --listen; "
             "port 0: any free one. Default: no HTTP");
  flags.Text("http-port-file", &port_file,
             "file to write the HTTP port to once the service is ready");
  flags.Text("http-allowed-hosts", &allowed_hosts,
             "host names, separated by commas, under which the HTTP port may be called without a "
             "token, and whose web pages may call it; *: all. Addresses and localhost are always "
             "allowed. Default: no other name if it listens on a loopback address, else all "
             "names, but only its own pages");
  flags.Text("served-model-name", model_name,
             "name of the model in the API. Default: the last part of the model's directory");
}

absl::Status HttpFlags::Validate() const {
  if (listen.empty()) return absl::OkStatus();
  TANDEM_RETURN_IF_ERROR(
      base::ParseAddress("--http-listen", listen, base::AddressUse::kListen).status());
  return Guard().Validate("http-allowed-hosts");
}

BrowserGuard HttpFlags::Guard() const {
  const auto address = base::ParseAddress("--http-listen", listen, base::AddressUse::kListen);
  return {.listen_host = address.ok() ? address->host : "",
          .allowed_hosts = absl::StrSplit(allowed_hosts, ',', absl::SkipEmpty())};
}

std::vector<transport::ListenAddress> HttpFlags::Addresses() const {
  if (listen.empty()) return {};
  return {{"--http-listen", listen}};
}

absl::Status HttpFlags::CheckFiles() const { return process::CheckPortFile(port_file); }

absl::StatusOr<std::unique_ptr<http::Port>> HttpFlags::Start(const transport::ServerFlags& server,
                                                             absl::Duration reader_patience,
                                                             http::Handler& handler) const {
  if (listen.empty()) return nullptr;
  http::PortOptions options;
  TANDEM_ASSIGN_OR_RETURN(options.address,
                          base::ParseAddress("--http-listen", listen, base::AddressUse::kListen));
  options.tls = server.tls;
  options.max_connections = server.max_connections;
  options.limits.max_body_bytes = kMaxRequestBytes;
  options.patience.idle = server.max_connection_idle;
  options.patience.reader = reader_patience;
  TANDEM_ASSIGN_OR_RETURN(auto port, http::Port::Start(options, handler));
  TANDEM_LOG(kInfo) << base::LogFields("http")
                           .Add("listen", listen)
                           .Add("port", port->port())
                           .Add("encryption", server.tls.Describe());
  TANDEM_RETURN_IF_ERROR(process::WritePortFile(port_file, port->port()));
  return port;
}

}  // namespace tandem::orchestrator
