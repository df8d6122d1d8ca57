#include "common/transport/server_flags.h"

#include <algorithm>
#include <iterator>

#include "common/base/status_macros.h"
#include "common/process/process.h"
#include "common/security/server_files.h"

namespace tandem::transport {

void ServerFlags::AddTo(flags::FlagSet& flags, absl::string_view grace_help) {
  flags.Group("Server");
  flags.Text("listen", &listen, "HOST:PORT to serve on; port 0: any free one");
  flags.Text("admin-listen", &admin_listen,
             "HOST:PORT for health checks and /metrics, in plaintext. Default: not served");
  flags.Text("port-file", &port_file,
             "file to write the port of --listen to once the service is ready");
  flags.Number(
      "max-connections", &max_connections, 1, 1'000'000,
      "maximum number of open connections; others are refused, as are those above the limit of "
      "file descriptors");
  flags.Number("max-calls-per-connection", &max_calls_per_connection, 1, 1'000'000,
               "maximum number of open calls per connection; others wait at the client. An "
               "orchestrator opens one per sample at a draft");
  flags.Number("max-network-mib", &max_network_mib, 64, 1 << 20,
               "MiB for connections and for messages in transit");
  flags.Duration("max-connection-idle", &max_connection_idle, absl::Seconds(1), absl::Hours(24),
                 "close a connection without a call after this");
  flags.Duration("grace", &grace, absl::ZeroDuration(), absl::Hours(1), grace_help);
  flags.Group("Encryption of --listen");
  flags.Text("tls-certificate", &tls.certificate,
             "PEM file with the server certificate and its intermediate certificates; read again "
             "when it changes, like all these files. Default: plaintext");
  flags.Text("tls-key", &tls.key, "PEM file with the key of that certificate");
  flags.Text(
      "tls-client-ca", &tls.client_ca,
      "PEM file with the authorities of client certificates, which are then required (mutual "
      "TLS). Default: none are requested");
}

absl::Status ServerFlags::Validate() const { return HostOptions().Validate(); }

absl::Status ServerFlags::CheckPortsAndFiles(std::vector<ListenAddress> more) const {
  std::vector<ListenAddress> addresses = {{"--listen", listen}};
  if (!admin_listen.empty()) addresses.push_back({"--admin-listen", admin_listen});
  std::move(more.begin(), more.end(), std::back_inserter(addresses));
  if (tls.enabled()) TANDEM_RETURN_IF_ERROR(security::ServerFiles::Check(tls));
  TANDEM_RETURN_IF_ERROR(process::CheckPortFile(port_file));
  return CheckListenAddresses(addresses);
}

ServerHostOptions ServerFlags::HostOptions() const {
  ServerHostOptions options;
  options.listen_address = listen;
  options.tls = tls;
  options.admin_address = admin_listen;
  options.max_connections = max_connections;
  options.max_calls_per_connection = max_calls_per_connection;
  options.max_network_mib = max_network_mib;
  options.max_connection_idle = max_connection_idle;
  return options;
}

}  // namespace tandem::transport
