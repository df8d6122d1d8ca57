// What the main function of every service does beside its service.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tandem::config {

// "--port-file=x" becomes "--port_file=x", in place, up to a "--": Abseil knows flags by the latter alone.
void DashesToUnderscores(int argc, char** argv);

// SIGTERM and SIGINT no longer end the process. Before any thread begins, which would take them.
void BlockStopSignals();
// Returns when one of them came, or, with false, after `timeout`.
bool WaitForStopSignal(absl::Duration timeout = absl::InfiniteDuration());

// Writes the port and a line break, so that a reader never sees half of it. Nothing for an empty path.
// INVALID_ARGUMENT names the path.
absl::Status WritePortFile(const std::string& path, int port);

}  // namespace tandem::config
