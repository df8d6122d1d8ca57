#include "client/common/command_line.h"

#include <cstdio>

namespace tandem::client {

bool PrintedHelp(absl::Span<const std::string> args, const flags::FlagSet& flags) {
  if (!flags::AsksForHelp(args)) return false;
  std::printf("%s", flags.Help().c_str());
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

}  // namespace tandem::client
