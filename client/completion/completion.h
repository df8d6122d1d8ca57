// `tandem completion` prints what a shell reads to complete the words of `tandem` and the services.
#pragma once

#include <string>

#include "absl/types/span.h"

namespace tandem::client {

// `args` are the arguments after the command's name. Returns the process's exit code
// (common/process/exit_codes.h).
int RunCompletion(absl::Span<const std::string> args);

}  // namespace tandem::client
