// The commands that load models are in a program of their own, `tandem-model`, which lies beside
// `tandem`: this process becomes it.
#pragma once

#include <string>

#include "absl/types/span.h"

namespace tandem::client {

// Runs `tandem-model COMMAND args`. Returns only where that cannot be started: the process's exit
// code (common/process/exit_codes.h), after an error was printed.
int RunModelProgram(const std::string& command, absl::Span<const std::string> args);

}  // namespace tandem::client
