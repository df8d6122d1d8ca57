// The frame of every service's main function: flags, checked alone or before the start; the form of
// the log; signals; exit codes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/flags/flag_set.h"

namespace tandem::process {

struct ServiceMain {
  std::string name;       // of the binary
  std::string summary;    // the first lines of --help
  std::string arguments;  // after the name, in the help
  // A command of `tandem`: an error begins with "error: " in place of the name, and wrong flags end
  // it with kExitUsage.
  bool is_command = false;
  // Declares the flags. --help, --version, --flagfile, --check-flags and those of the log are
  // RunService's own.
  std::function<void(flags::FlagSet& flags)> add_flags;
  // All that can be said of the flags without a file, a port or a peer: values and how they go
  // together. Whether files are there and what is in them is seen at the start alone: where flags
  // are checked, before they are rolled out, there are no models and no keys.
  std::function<absl::Status()> check;
  // Until a signal has come and all is done. SIGTERM and SIGINT are blocked.
  std::function<absl::Status()> serve;
};

// Parses the flags and calls `check`, then `serve`; with --check-flags it prints "flags OK" in its
// place. Of a flag that is given again the last one counts. Returns the exit code: 0, or another
// one with the error on stderr. What is wrong with the flags is said to whoever types, and what
// fails later is a line of the log; with --log-format=json both are. It is an error when standard
// output cannot take what --help, --version or --check-flags say.
int RunService(absl::Span<const std::string> args, const ServiceMain& service);
int RunService(int argc, char** argv, const ServiceMain& service);

}  // namespace tandem::process
