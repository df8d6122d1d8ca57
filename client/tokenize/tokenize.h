// `tandem tokenize` turns a text into the tokens of the model that an orchestrator serves, and
// token ids into a text.
#pragma once

#include <string>

#include "absl/types/span.h"

namespace tandem::client {

// `args` are the arguments after the command's name. Returns the process's exit code
// (common/process/exit_codes.h).
int RunTokenize(absl::Span<const std::string> args);

}  // namespace tandem::client
