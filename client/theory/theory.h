// `tandem theory` prints what speculation wins on paper. It needs no service.
#pragma once

#include <string>

#include "absl/types/span.h"

namespace tandem::client {

// `args` are the arguments after the command's name. Returns the process's exit code
// (common/process/exit_codes.h).
int RunTheory(absl::Span<const std::string> args);

}  // namespace tandem::client
