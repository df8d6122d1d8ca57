// `tandem bench` compares requests with a draft and without one. It sends one request at a time or
// many at once, and the modes take turns.
#pragma once

#include <string>

#include "absl/types/span.h"

namespace tandem::client {

// `args` are the arguments after the command's name. Returns the process's exit code
// (common/process/exit_codes.h).
int RunBench(absl::Span<const std::string> args);

}  // namespace tandem::client
