// `tandem generate` streams text to the terminal and then reports how speculation went.
#pragma once

#include <string>

#include "absl/types/span.h"

namespace tandem::client {

// `args` are the arguments after the command's name. Returns the process's exit code
// (common/process/exit_codes.h).
int RunGenerate(absl::Span<const std::string> args);

}  // namespace tandem::client
