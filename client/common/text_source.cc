#include "client/common/text_source.h"

#include <fstream>
#include <iostream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "client/common/prompt.h"
#include "common/base/status_macros.h"

namespace tandem::client {

void TextSource::AddTo(flags::FlagSet& flags, absl::string_view what) {
  const auto into = [](std::optional<std::string>& text) {
    return [&text](absl::string_view value) {
      text = std::string(value);
      return absl::OkStatus();
    };
  };
  flags.Argument("text", into(argument));
  flags.Custom("prompt", into(prompt), absl::StrCat(what, ", in place of an argument"));
  flags.Letter('p', "prompt");
  flags.Custom("prompt-file", into(file),
               absl::StrCat("a file with ", what, ", taken as it is; - = standard input"));
  flags.Letter('f', "prompt-file");
}

absl::Status TextSource::Validate(absl::string_view what) const {
  const int given = argument.has_value() + prompt.has_value() + file.has_value();
  if (given == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("give ", what, ": \"TEXT\", --prompt=TEXT or --prompt-file=FILE"));
  }
  if (given > 1) {
    return absl::InvalidArgumentError(
        argument.has_value() ? absl::StrCat("'", argument->substr(0, 40), "' and ",
                                            prompt.has_value() ? "--prompt" : "--prompt-file",
                                            ": give only one of them")
                             : "--prompt and --prompt-file: give only one of them");
  }
  if (argument) return CheckPrompt(*argument, "the argument");
  return prompt ? CheckPrompt(*prompt, "--prompt") : absl::OkStatus();
}

absl::StatusOr<std::string> TextSource::Read() const {
  if (argument) return *argument;
  if (prompt) return *prompt;
  std::string text;
  if (*file == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    std::ifstream stream(*file, std::ios::binary);
    if (!stream.is_open()) {
      return absl::NotFoundError(absl::StrCat("--prompt-file=", *file, ": cannot be opened"));
    }
    text.assign(std::istreambuf_iterator<char>(stream), {});
    if (stream.bad()) {
      return absl::NotFoundError(absl::StrCat("--prompt-file=", *file, ": cannot be read"));
    }
  }
  TANDEM_RETURN_IF_ERROR(CheckPrompt(text, *file == "-" ? "standard input" : *file));
  return text;
}

}  // namespace tandem::client
