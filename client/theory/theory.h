// `tandem theory` prints what speculation can win: by formulas, or by times that are given or that an
// orchestrator measured.
#pragma once

#include <string>

#include "absl/types/span.h"

namespace tandem::client {

// `args` are the arguments after the command's name. Returns the process's exit code
// (common/process/exit_codes.h).
int RunTheory(absl::Span<const std::string> args);

}  // namespace tandem::client
