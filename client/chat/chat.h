// `tandem chat` reads messages, a line each, and streams the answers of a model that has a chat
// template.
#pragma once

#include <string>

#include "absl/types/span.h"

namespace tandem::client {

// `args` are the arguments after the command's name. Returns the process's exit code
// (common/process/exit_codes.h).
int RunChat(absl::Span<const std::string> args);

}  // namespace tandem::client
