// The text that a command is given: an argument, --prompt, or a file.
//
// Thread safety: plain values. Read reads a file, or standard input.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/flags/flag_set.h"

namespace tandem::client {

struct TextSource {
  std::optional<std::string> argument;
  std::optional<std::string> prompt;
  std::optional<std::string> file;  // "-": standard input

  // The argument, --prompt (-p) and --prompt-file (-f). `what`: "the text to continue".
  void AddTo(flags::FlagSet& flags, absl::string_view what);
  bool given() const { return argument || prompt || file; }
  // INVALID_ARGUMENT: not exactly one is given, or it is not text (CheckPrompt). Opens no file.
  absl::Status Validate(absl::string_view what) const;
  // UTF-8, and not empty. NOT_FOUND and INVALID_ARGUMENT name the file.
  absl::StatusOr<std::string> Read() const;
};

}  // namespace tandem::client
