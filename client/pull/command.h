// `tandem pull OWNER/NAME[@REVISION]` downloads a model of the hub into the cache.
#pragma once

#include <string>

#include "absl/types/span.h"

namespace tandem::client {

// `args` are the arguments after the command's name. Progress goes to standard error, and the path
// of the snapshot to standard output. Returns the process's exit code
// (common/process/exit_codes.h).
int RunPull(absl::Span<const std::string> args);

}  // namespace tandem::client
