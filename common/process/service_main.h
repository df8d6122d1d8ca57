// The frame of every service's main function: flags, checked alone or before the start; signals; exit codes.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tandem::process {

struct ServiceMain {
  std::string name;   // of the binary
  std::string usage;  // the first lines of --help
  // All that can be said of the flags without a file, a port or a peer: values and how they go together.
  // Whether files are there and what is in them is seen at the start alone: where flags are checked, before
  // they are rolled out, there are no models and no keys.
  std::function<absl::Status()> check;
  // Until a signal has come and all is done. SIGTERM and SIGINT are blocked.
  std::function<absl::Status()> serve;
};

// Parses the flags and calls `check`, then `serve`; with --check_flags it prints "flags OK" in its place.
// Returns the exit code: 0, or 1 with the error on stderr. A flag that does not parse ends the process with 1.
int RunService(int argc, char** argv, const ServiceMain& service);

// INVALID_ARGUMENT names the flag and its range.
absl::Status CheckTimeFlag(absl::string_view flag, absl::Duration value, absl::Duration max);

}  // namespace tandem::process
