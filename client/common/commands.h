// The sub-commands of `tandem`, each in the folder of its name. `args` are the arguments after the
// command's name. Returns the process's exit code (common/process/exit_codes.h).
#pragma once

#include <string>

#include "absl/types/span.h"

namespace tandem::client {

int RunGenerate(absl::Span<const std::string> args);
int RunChat(absl::Span<const std::string> args);
int RunDescribe(absl::Span<const std::string> args);
int RunPull(absl::Span<const std::string> args);
int RunTokenize(absl::Span<const std::string> args);
int RunBench(absl::Span<const std::string> args);
int RunTheory(absl::Span<const std::string> args);
int RunCompletion(absl::Span<const std::string> args);

}  // namespace tandem::client
