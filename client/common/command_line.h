// What all commands of `tandem` do with their arguments.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/flags/flag_set.h"

namespace tandem::client {

// If the arguments ask for help, prints it to standard output and returns true.
bool PrintedHelp(absl::Span<const std::string> args, const flags::FlagSet& flags);

// Prints "error: …" to standard error.
void PrintError(const absl::Status& status);

// The exit code of a command that would end with `code`. If standard output did not take what the
// command said, prints that as an error, and a command that went well otherwise has failed.
int ExitCode(int code);

}  // namespace tandem::client
