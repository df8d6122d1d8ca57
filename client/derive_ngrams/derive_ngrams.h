// `tandem derive-ngrams` replaces this process by `tandem-model derive-ngrams`, which lies beside it
// and can load models.
#pragma once

#include <string>

#include "absl/types/span.h"

namespace tandem::client {

// `args` are the arguments after the command's name. Returns the process's exit code
// (common/process/exit_codes.h).
int RunDeriveNgrams(absl::Span<const std::string> args);

}  // namespace tandem::client
