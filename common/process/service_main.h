// The frame of every service's main function: flags, checked alone or before the start; signals;
// exit codes.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "common/flags/flag_set.h"

namespace tandem::process {

struct ServiceMain {
  std::string name;       // of the binary
  std::string summary;    // the first lines of --help
  std::string arguments;  // after the name, in the help
  // Declares the flags. --help, --version, --flagfile and --check-flags are RunService's own.
  std::function<void(flags::FlagSet& flags)> add_flags;
  // All that can be said of the flags without a file, a port or a peer: values and how they go
  // together. Whether files are there and what is in them is seen at the start alone: where flags
  // are checked, before they are rolled out, there are no models and no keys.
  std::function<absl::Status()> check;
  // Until a signal has come and all is done. SIGTERM and SIGINT are blocked.
  std::function<absl::Status()> serve;
};

// Parses the flags and calls `check`, then `serve`; with --check-flags it prints "flags OK" in its
// place. Of a flag that is given again the last one counts. Returns the exit code: 0, or 1 with the
// error on stderr. It is an error when standard output cannot take what --help, --version or
// --check-flags say.
int RunService(int argc, char** argv, const ServiceMain& service);

}  // namespace tandem::process
