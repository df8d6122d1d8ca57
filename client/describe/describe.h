// `tandem describe` tells what an orchestrator says of itself, its targets and its drafts.
#pragma once

#include <string>

#include "absl/types/span.h"

namespace tandem::client {

// `args` are the arguments after the command's name. Returns the process's exit code
// (common/process/exit_codes.h).
int RunDescribe(absl::Span<const std::string> args);

}  // namespace tandem::client
