// What all commands of `tandem` do with their arguments.
#pragma once

#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/flags/flag_set.h"

namespace tandem::client {

// Reads the arguments into what `flags` fills, then calls `check`, which may read more: files, the
// environment. Nothing: the command goes on. Else the exit code that it ends with: it was asked for
// help or completions (FlagSet::Told), which are printed now, or something is wrong, which is said.
std::optional<int> ReadArguments(absl::Span<const std::string> args, flags::FlagSet& flags,
                                 absl::FunctionRef<absl::Status()> check);

// Prints "error: …" to standard error.
void PrintError(const absl::Status& status);

// The exit code of a command that would end with `code`. If standard output did not take what the
// command said, prints that as an error, and a command that went well otherwise has failed.
int ExitCode(int code);

}  // namespace tandem::client
