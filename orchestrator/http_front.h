// The port that speaks HTTP, as flags describe it: for tandem-orchestrator and `tandem serve`.
//
// Thread safety: plain values.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/flags/flag_set.h"
#include "common/http/port.h"
#include "common/transport/listen_check.h"
#include "common/transport/server_flags.h"
#include "orchestrator/openai/browser_guard.h"

namespace tandem::orchestrator {

struct HttpFlags {
  std::string listen;         // HOST:PORT; empty: none
  std::string port_file;      // empty: none
  std::string allowed_hosts;  // separated by commas; empty: none

  // `model_name` is what --served-model-name sets; it outlives `flags`.
  void AddTo(flags::FlagSet& flags, std::string* model_name);
  // INVALID_ARGUMENT naming the flag. Looks at no file, no port.
  absl::Status Validate() const;
  // For Options::browser_guard. The flags are valid.
  BrowserGuard Guard() const;
  // What to add to ServerFlags::CheckPortsAndFiles.
  std::vector<transport::ListenAddress> Addresses() const;

  // Whether --http-port-file can be written. Ask before anything that takes long.
  absl::Status CheckFiles() const;

  // The port, with the encryption and the limits of `server`; null: none is wanted. `handler`
  // outlives it. `reader_patience`: how long a client may leave an answer unread. Errors as
  // http::Port::Start.
  absl::StatusOr<std::unique_ptr<http::Port>> Start(const transport::ServerFlags& server,
                                                    absl::Duration reader_patience,
                                                    http::Handler& handler) const;
};

}  // namespace tandem::orchestrator
