// `tandem bench`: requests with and without a draft, one at a time or many at once, in turn.
#pragma once

#include <string>

#include "absl/types/span.h"

namespace tandem::client {

// `args`: those after the command's name. Returns the process's exit code
// (common/process/exit_codes.h).
int RunBench(absl::Span<const std::string> args);

}  // namespace tandem::client
