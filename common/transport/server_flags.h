// Flags of every process that serves: where it listens, what it shows and asks for, and how it
// ends.
//
// Thread safety: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/flags/flag_set.h"
#include "common/security/tls_options.h"
#include "common/transport/listen_check.h"
#include "common/transport/server_host.h"

namespace tandem::transport {

struct ServerFlags {
  std::string listen;              // HOST:PORT
  std::string admin_listen;        // empty: none
  security::TlsServerOptions tls;  // of `listen`
  std::string port_file;           // empty: none
  // As ServerHostOptions'.
  uint32_t max_connections = ServerHostOptions().max_connections;
  uint32_t max_calls_per_connection = ServerHostOptions().max_calls_per_connection;
  uint32_t max_network_mib = ServerHostOptions().max_network_mib;
  absl::Duration max_connection_idle = ServerHostOptions().max_connection_idle;
  absl::Duration grace = absl::Seconds(10);

  // `grace_help`: what --grace is given to.
  void AddTo(flags::FlagSet& flags, absl::string_view grace_help);
  // INVALID_ARGUMENT naming each bad flag. Looks at no file, no port.
  absl::Status Validate() const;
  // Whether the process can serve as the flags say: listen on --listen, --admin-listen and `more`
  // (listen_check.h), read the TLS files, and write --port-file. Ask before anything that takes
  // long.
  absl::Status CheckPortsAndFiles(std::vector<ListenAddress> more = {}) const;
  // With what the flags say; services, metrics and names of health are the caller's.
  ServerHostOptions HostOptions() const;
};

}  // namespace tandem::transport
