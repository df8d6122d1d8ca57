// The `tandem` command.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/bench/bench.h"
#include "client/common/command_line.h"
#include "client/generate/generate.h"
#include "client/pull/command.h"
#include "client/serve/serve.h"
#include "client/theory/theory.h"
#include "common/base/version.h"
#include "common/process/exit_codes.h"
#include "common/process/library_locks.h"
#include "common/process/standard_output.h"

namespace tandem::client {
namespace {

constexpr char kUsage[] =
    R"(Tandem: speculative decoding across machines.

Usage: tandem COMMAND [flags]

  generate   streams the continuation of a prompt, then tells how speculation went
  pull       a model of the Hugging Face hub into the cache
  serve      draft service, target service and orchestrator in one process
  bench      prompts with and without a draft in turn, one or many at once, and what speculation won
  theory     what speculation wins on paper; needs no service
  version    what this is
  help       this text; `tandem COMMAND --help` tells a command's flags
)";

bool AsksForHelp(const std::string& command) {
  return command == "help" || command == "--help" || command == "-h";
}

int Run(const std::vector<std::string>& args) {
  if (args.empty()) {
    std::fprintf(stderr, "%s", kUsage);
    return process::kExitUsage;
  }
  const std::string& command = args[0];
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  if (command == "generate") return RunGenerate(rest);
  if (command == "bench") return RunBench(rest);
  if (command == "pull") return RunPull(rest);
  if (command == "serve") return RunServe(rest);
  if (command == "theory") return RunTheory(rest);
  if (command == "version" || command == "--version") {
    process::Print(absl::StrCat("tandem ", base::Version(), "\n"));
    return process::kExitOk;
  }
  if (AsksForHelp(command)) {
    if (!rest.empty() && !AsksForHelp(rest[0])) return Run({rest[0], "--help"});
    process::Print(kUsage);
    return process::kExitOk;
  }
  PrintError(absl::InvalidArgumentError(
      absl::StrCat("unknown command '", command,
                   "'; there are generate, pull, serve, bench, theory, version and help")));
  return process::kExitUsage;
}

}  // namespace
}  // namespace tandem::client

int main(int argc, char** argv) {
  tandem::process::StopDeadlockDetection();
  return tandem::client::ExitCode(tandem::client::Run({argv + 1, argv + argc}));
}
