// `tandem pull OWNER/NAME[@REVISION][:FILE.gguf]` downloads a model of the hub into the cache.
// Progress goes to standard error, and the path of the snapshot, or of the file in it, to standard
// output.
#include "client/common/commands.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/common/command_line.h"
#include "client/pull/progress.h"
#include "client/pull/pull.h"
#include "common/base/status_macros.h"
#include "common/flags/flag_set.h"
#include "common/hub/repository_files.h"
#include "common/process/exit_codes.h"
#include "common/process/standard_output.h"

namespace tandem::client {
namespace {

struct PullOptions {
  std::string name;  // OWNER/NAME[@REVISION][:FILE.gguf]; empty: not given
  bool tokenizer_only = false;

  void AddTo(flags::FlagSet& flags) {
    flags.Argument("name", [this](absl::string_view text) {
      name = std::string(text);
      return absl::OkStatus();
    });
    flags.Group("What");
    flags.Switch("tokenizer-only", &tokenizer_only,
                 "the tokenizer's files alone: all that an orchestrator needs");
  }
  hub::Need need() const { return tokenizer_only ? hub::Need::kTokenizer : hub::Need::kModel; }
};

void WriteError(absl::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

absl::StatusOr<hub::HubName> ParseName(const PullOptions& options) {
  if (options.name.empty()) {
    return absl::InvalidArgumentError(
        "give the model to pull, OWNER/NAME, OWNER/NAME@REVISION or OWNER/NAME:FILE.gguf, as in "
        "Qwen/Qwen3-0.6B");
  }
  TANDEM_ASSIGN_OR_RETURN(hub::HubName name, hub::ParseHubName(options.name));
  if (options.tokenizer_only && !name.file.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tokenizer-only: the tokenizer is in ", name.file,
                     ", which is one file; pull it without this flag, or name a repository that "
                     "has a tokenizer.json"));
  }
  return name;
}

absl::StatusOr<hub::Snapshot> PullShown(const hub::Settings& settings, const hub::HubName& name,
                                        hub::Need need) {
  ProgressOptions options;
  options.is_terminal = isatty(STDERR_FILENO) == 1;
  options.now = &absl::Now;
  options.write = &WriteError;
  Progress progress(name.Text(), options);
  absl::StatusOr<hub::Snapshot> snapshot = Pull(settings, name, need, progress);
  if (snapshot.ok()) progress.OnNote(absl::StrCat("commit ", snapshot->commit, " is in the cache"));
  progress.Finish();
  return snapshot;
}

}  // namespace

int RunPull(absl::Span<const std::string> args) {
  PullOptions options;
  flags::FlagSet flags(
      "tandem pull",
      "Downloads a model of the Hugging Face hub: its safetensors and what belongs to them, or one "
      "GGUF\n"
      "file with all its parts. Prints the path of the folder or of the file. Any --model takes "
      "it, and\n"
      "takes the name itself, too.\n"
      "The cache is the one of huggingface_hub. HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_ENDPOINT,\n"
      "HF_HUB_OFFLINE and HF_HUB_DOWNLOAD_TIMEOUT mean what they mean there.",
      "OWNER/NAME[@REVISION][:FILE.gguf] [flags]");
  options.AddTo(flags);
  hub::HubName name;
  hub::Settings settings;
  const auto check = [&]() -> absl::Status {
    TANDEM_ASSIGN_OR_RETURN(name, ParseName(options));
    TANDEM_ASSIGN_OR_RETURN(settings, hub::SettingsFromEnvironment());
    return absl::OkStatus();
  };
  if (const auto code = ReadArguments(args, flags, check)) return *code;
  const absl::StatusOr<hub::Snapshot> snapshot = PullShown(settings, name, options.need());
  if (!snapshot.ok()) {
    PrintError(snapshot.status());
    return process::kExitFailure;
  }
  process::Print(snapshot->path + "\n");
  return process::kExitOk;
}

}  // namespace tandem::client
