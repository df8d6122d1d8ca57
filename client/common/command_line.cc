#include "client/common/command_line.h"

#include <cstdio>

#include "common/process/exit_codes.h"
#include "common/process/standard_output.h"

namespace tandem::client {

bool PrintedHelp(absl::Span<const std::string> args, const flags::FlagSet& flags) {
  if (!flags::AsksForHelp(args)) return false;
  process::Print(flags.Help());
  return true;
}

void PrintError(const absl::Status& status) {
  const std::string message(status.message());
  // A wrong flag says all by itself; of a failed request the code matters as well.
  if (status.code() == absl::StatusCode::kInvalidArgument) {
    std::fprintf(stderr, "error: %s\n", message.c_str());
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
