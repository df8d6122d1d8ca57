// What every command of `tandem` says of its arguments.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/flags/flag_set.h"

namespace tandem::client {

// True when the arguments ask for help; it was printed to standard output then.
bool PrintedHelp(absl::Span<const std::string> args, const flags::FlagSet& flags);

// "error: …" on standard error.
void PrintError(const absl::Status& status);

}  // namespace tandem::client
