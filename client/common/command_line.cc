#include "client/common/command_line.h"

#include <cstdio>
#include <optional>
#include <string>

#include "client/common/request_flags.h"
#include "common/base/excerpt.h"
#include "common/process/exit_codes.h"
#include "common/process/standard_output.h"

namespace tandem::client {

std::optional<int> ReadArguments(absl::Span<const std::string> args, flags::FlagSet& flags,
                                 absl::FunctionRef<absl::Status()> check) {
  if (const std::optional<std::string> told = flags.Told(args)) {
    process::Print(*told);
    return process::kExitOk;
  }
  absl::Status status = flags.Parse(args);
  if (status.ok()) status = check();
  if (status.ok()) return std::nullopt;
  PrintError(status);
  return process::kExitUsage;
}

void PrintError(const absl::Status& status) {
  const std::string message = base::MessageForTerminal(status.message());
  // A wrong flag says all by itself, also where the orchestrator found it, which knows fields; of a
  // failed request the code matters as well.
  if (status.code() == absl::StatusCode::kInvalidArgument) {
    std::fprintf(stderr, "error: %s\n", InFlagsWords(message).c_str());
  } else {
    std::fprintf(stderr, "error: %s: %s\n", absl::StatusCodeToString(status.code()).c_str(),
                 message.c_str());
  }
}

int ExitCode(int code) {
  const absl::Status printed = process::PrintStatus();
  if (printed.ok()) return code;
  PrintError(printed);
  return code == process::kExitOk ? process::kExitFailure : code;
}

}  // namespace tandem::client
