#include "client/common/text_source.h"

#include "absl/strings/str_cat.h"
#include "client/common/prompt.h"
#include "common/base/read_file.h"
#include "common/base/status_macros.h"

namespace tandem::client {
namespace {

constexpr int64_t kMaxBytes = 64 << 20;  // more than any context holds

}  // namespace

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
  const bool standard_input = *file == "-";
  absl::StatusOr<std::string> text =
      standard_input ? base::ReadStandardInput(kMaxBytes) : base::ReadFileOrPipe(*file, kMaxBytes);
  if (!text.ok()) {
    return absl::Status(text.status().code(),
                        absl::StrCat("--prompt-file=", *file, ": ", text.status().message()));
  }
  TANDEM_RETURN_IF_ERROR(CheckPrompt(*text, standard_input ? "standard input" : *file));
  return text;
}

}  // namespace tandem::client
