// The `tandem` command.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/common/command_line.h"
#include "client/common/commands.h"
#include "client/common/model_program.h"
#include "common/base/version.h"
#include "common/flags/completion.h"
#include "common/flags/nearest_name.h"
#include "common/process/exit_codes.h"
#include "common/process/library_locks.h"
#include "common/process/standard_output.h"

namespace tandem::client {
namespace {

struct Command {
  const char* name;
  const char* summary;
  int (*run)(absl::Span<const std::string> args);  // those after the name; the exit code
};

constexpr Command kCommands[] = {
    {"generate", "stream the continuation of a prompt, then report on speculation", &RunGenerate},
    {"chat", "chat with a model that has a chat template", &RunChat},
    {"serve", "run draft service, target service and orchestrator in one process",
     [](absl::Span<const std::string> args) { return RunModelProgram("serve", args); }},
    {"derive-ngrams", "derive n-grams from a model, for drafts without a model",
     [](absl::Span<const std::string> args) { return RunModelProgram("derive-ngrams", args); }},
    {"prune-vocabulary",
     "make a draft model that proposes only the most frequent tokens of a corpus",
     [](absl::Span<const std::string> args) { return RunModelProgram("prune-vocabulary", args); }},
    {"describe", "print what an orchestrator, its targets and its drafts serve", &RunDescribe},
    {"pull", "download a model of the Hugging Face hub into the cache", &RunPull},
    {"tokenize", "convert text to the served model's tokens, and back", &RunTokenize},
    {"bench", "measure the speedup: the same prompts with and without a draft, interleaved",
     &RunBench},
    {"theory", "compute the expected speedup, best length and break-even draft time", &RunTheory},
    {"completion", "print shell completion for bash, zsh or fish", &RunCompletion},
};
constexpr std::pair<const char*, const char*> kOthers[] = {
    {"version", "print the version"},
    {"help", "print this text; `tandem COMMAND --help` prints a command's flags"}};

// `use`: of the name and the summary of each.
template <typename Use>
void ForEachCommand(const Use& use) {
  for (const Command& command : kCommands) use(command.name, command.summary);
  for (const auto& [name, summary] : kOthers) use(name, summary);
}

std::string Usage() {
  std::string text =
      "Tandem: speculative decoding across machines.\n\n"
      "Usage: tandem COMMAND [flags]\n\n";
  ForEachCommand([&](const char* name, const char* summary) {
    absl::StrAppendFormat(&text, "  %-16s  %s\n", name, summary);
  });
  return text;
}

bool AsksForHelp(const std::string& command) {
  return command == "help" || command == "--help" || command == "-h";
}

// Null: there is none of that name.
const Command* FindCommand(absl::string_view name) {
  for (const Command& command : kCommands) {
    if (name == command.name) return &command;
  }
  return nullptr;
}

// What a shell may write in place of the last word.
int Complete(absl::Span<const std::string> words) {
  if (words.size() == 1) {
    ForEachCommand([&](const char* name, const char* summary) {
      if (absl::StartsWith(name, words[0])) process::Print(flags::CompletionLine(name, summary));
    });
    return process::kExitOk;
  }
  const Command* const command = FindCommand(words[0]);
  if (command == nullptr) return process::kExitOk;
  std::vector<std::string> args(words.begin(), words.end());
  args[0] = "--complete";
  return command->run(args);
}

int Run(const std::vector<std::string>& args) {
  if (args.empty()) {
    std::fprintf(stderr, "%s", Usage().c_str());
    return process::kExitUsage;
  }
  if (const auto words = flags::CompletedWords(args)) return Complete(*words);
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  if (const Command* const command = FindCommand(args[0])) return command->run(rest);
  if (args[0] == "version" || args[0] == "--version") {
    process::Print(absl::StrCat("tandem ", base::Version(), "\n"));
    return process::kExitOk;
  }
  if (AsksForHelp(args[0])) {
    if (!rest.empty() && !AsksForHelp(rest[0])) return Run({rest[0], "--help"});
    process::Print(Usage());
    return process::kExitOk;
  }
  std::vector<std::string> names;
  ForEachCommand([&](const char* name, const char* /*summary*/) { names.emplace_back(name); });
  PrintError(absl::InvalidArgumentError(
      absl::StrCat("unknown command '", args[0], "'; must be one of ", absl::StrJoin(names, ", "),
                   flags::DidYouMean(args[0], names))));
  return process::kExitUsage;
}

}  // namespace
}  // namespace tandem::client

int main(int argc, char** argv) {
  tandem::process::StopDeadlockDetection();
  return tandem::client::ExitCode(tandem::client::Run({argv + 1, argv + argc}));
}
