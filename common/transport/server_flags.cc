#include "common/transport/server_flags.h"

#include <algorithm>
#include <iterator>

namespace tandem::transport {

void ServerFlags::AddTo(flags::FlagSet& flags, absl::string_view grace_help) {
  flags.Group("Server");
  flags.Text("listen", &listen, "HOST:PORT to serve on; port 0: any free one");
  flags.Text("admin-listen", &admin_listen,
             "HOST:PORT for health and /metrics, plaintext, for the pod itself; none when absent");
  flags.Text("port-file", &port_file, "the port of --listen is written there once all is ready");
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

absl::Status ServerFlags::CheckPorts(std::vector<ListenAddress> more) const {
  std::vector<ListenAddress> addresses = {{"--listen", listen}};
  if (!admin_listen.empty()) addresses.push_back({"--admin-listen", admin_listen});
  std::move(more.begin(), more.end(), std::back_inserter(addresses));
  return CheckListenAddresses(addresses);
}

ServerHostOptions ServerFlags::HostOptions() const {
  ServerHostOptions options;
  options.listen_address = listen;
  options.tls = tls;
  options.admin_address = admin_listen;
  return options;
}

}  // namespace tandem::transport
