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
             "HOST:PORT for health and /metrics, plaintext, for the pod itself; none when absent");
  flags.Text("port-file", &port_file, "the port of --listen is written there once all is ready");
  flags.Number(
      "max-connections", &max_connections, 1, 1'000'000,
      "connections open at once; those beyond them are refused, as are those for which the "
      "limit of descriptors leaves no room");
  flags.Number("max-calls-per-connection", &max_calls_per_connection, 1, 1'000'000,
               "calls that a connection has open at once; those beyond them wait at the client. An "
               "orchestrator has one at a draft for each of its samples");
  flags.Number("max-network-mib", &max_network_mib, 64, 1 << 20,
               "MiB of memory for connections and for messages on their way");
  flags.Duration("max-connection-idle", &max_connection_idle, absl::Seconds(1), absl::Hours(24),
                 "a connection without a call is closed after this");
  flags.Duration("grace", &grace, absl::ZeroDuration(), absl::Hours(1), grace_help);
  flags.Group("Encryption of --listen");
  flags.Text("tls-certificate", &tls.certificate,
             "PEM file with the certificate to serve with, and those between it and its authority; "
             "plaintext when absent. Looked at again when it changes, as all these files");
  flags.Text("tls-key", &tls.key, "PEM file with its key");
  flags.Text(
      "tls-client-ca", &tls.client_ca,
      "PEM file with authorities: who connects must show a certificate of one of them; nobody "
      "is asked for one when absent");
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
