// Flags in a file: one a line, as they are written on a command line, without a shell's quotes.
//
//   # a comment; empty lines count nothing either
//   --listen=0.0.0.0:50051
//   --grace=10s
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tandem::flags {

struct FlagLine {
  std::string place;  // "FILE:LINE"
  std::string text;   // without white space around it
};

// Each line that is not a comment. INVALID_ARGUMENT names a file that cannot be read, and why.
absl::StatusOr<std::vector<FlagLine>> ReadFlagFile(const std::string& path);

}  // namespace tandem::flags
