// The sub-commands of `tandem`. Each gets the arguments after its own name and returns the process's
// exit code.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/exit_codes.h"
#include "client/flags.h"

namespace tandem::client {

int RunGenerate(absl::Span<const std::string> args);
int RunBench(absl::Span<const std::string> args);
int RunTheory(absl::Span<const std::string> args);
// Replaces this process by `tandem-model serve`, which lies beside it.
int RunServe(absl::Span<const std::string> args);

// True when the arguments ask for help; it was printed to standard output then.
bool PrintedHelp(absl::Span<const std::string> args, const FlagSet& flags);

// "error: …" on standard error.
void PrintError(const absl::Status& status);

}  // namespace tandem::client
