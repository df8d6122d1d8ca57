// `tandem completion` prints what a shell reads to complete the words of `tandem` and the services.
#include "client/common/commands.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/common/command_line.h"
#include "client/completion/scripts.h"
#include "common/flags/completion.h"
#include "common/flags/flag_set.h"
#include "common/flags/nearest_name.h"
#include "common/process/exit_codes.h"
#include "common/process/standard_output.h"

namespace tandem::client {
namespace {

struct Shell {
  const char* name;
  const absl::string_view& script;
};
constexpr Shell kShells[] = {
    {"bash", kBashCompletion}, {"fish", kFishCompletion}, {"zsh", kZshCompletion}};

// Null: there is none of that name.
const Shell* FindShell(absl::string_view name) {
  for (const Shell& shell : kShells) {
    if (name == shell.name) return &shell;
  }
  return nullptr;
}

}  // namespace

int RunCompletion(absl::Span<const std::string> args) {
  std::string wanted;
  flags::FlagSet flags(
      "tandem completion",
      "Prints what a shell reads to complete the words of `tandem` and of the services:\n"
      "  bash  source <(tandem completion bash), in ~/.bashrc\n"
      "  zsh   source <(tandem completion zsh), in ~/.zshrc, after compinit\n"
      "  fish  tandem completion fish | source, in ~/.config/fish/config.fish\n"
      "The shell asks the program itself for its flags: `PROGRAM --complete WORD...` prints what\n"
      "may stand in place of the last word.",
      "bash|zsh|fish");
  flags.Argument("shell", [&wanted](absl::string_view text) {
    wanted = std::string(text);
    return absl::OkStatus();
  });
  if (const auto words = flags::CompletedWords(args); words.has_value() && words->size() == 1) {
    for (const Shell& shell : kShells) {
      if (!absl::StartsWith(shell.name, words->front())) continue;
      process::Print(flags::CompletionLine(shell.name, ""));
    }
    return process::kExitOk;
  }
  const Shell* shell = nullptr;
  const auto check = [&]() -> absl::Status {
    shell = FindShell(wanted);
    if (shell != nullptr) return absl::OkStatus();
    return absl::InvalidArgumentError(
        wanted.empty() ? "give the shell: bash, zsh or fish"
                       : absl::StrCat("'", wanted, "' is none of bash, zsh, fish",
                                      flags::DidYouMean(wanted, {"bash", "zsh", "fish"})));
  };
  if (const auto code = ReadArguments(args, flags, check)) return *code;
  process::Print(shell->script);
  return process::kExitOk;
}

}  // namespace tandem::client
