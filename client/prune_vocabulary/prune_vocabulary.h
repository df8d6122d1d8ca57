// `tandem prune-vocabulary` replaces this process by `tandem-model prune-vocabulary`, which lies beside
// it and can read models.
#pragma once

#include <string>

#include "absl/types/span.h"

namespace tandem::client {

// `args` are the arguments after the command's name. Returns the process's exit code
// (common/process/exit_codes.h).
int RunPruneVocabulary(absl::Span<const std::string> args);

}  // namespace tandem::client
