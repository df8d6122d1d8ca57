// The `tandem` command.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/commands.h"

namespace tandem::client {
namespace {

constexpr char kUsage[] =
    R"(Tandem: speculative decoding across machines.

Usage: tandem COMMAND [flags]

  generate   streams the continuation of a prompt, then tells how speculation went
  serve      draft service, target service and orchestrator in one process
  bench      prompts with and without a draft in turn, one or many at once, and what speculation won
  theory     what speculation wins on paper; needs no service
  version    what this is
  help       this text; `tandem COMMAND --help` tells a command's flags
)";

int Run(const std::vector<std::string>& args) {
  if (args.empty()) {
    std::fprintf(stderr, "%s", kUsage);
    return kExitUsage;
  }
  const std::string& command = args[0];
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  if (command == "generate") return RunGenerate(rest);
  if (command == "bench") return RunBench(rest);
  if (command == "serve") return RunServe(rest);
  if (command == "theory") return RunTheory(rest);
  if (command == "version" || command == "--version") {
    std::printf("tandem %s\n", TANDEM_VERSION);
    return kExitOk;
  }
  if (command == "help" || command == "--help" || command == "-h") {
    if (!rest.empty()) return Run({rest[0], "--help"});
    std::printf("%s", kUsage);
    return kExitOk;
  }
  PrintError(absl::InvalidArgumentError(
      absl::StrCat("unknown command '", command,
                   "'; there are generate, serve, bench, theory, version and help")));
  return kExitUsage;
}

}  // namespace

bool PrintedHelp(absl::Span<const std::string> args, const FlagSet& flags) {
  for (const std::string& arg : args) {
    if (arg != "--help" && arg != "-h") continue;
    std::printf("%s", flags.Help().c_str());
    return true;
  }
  return false;
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

int main(int argc, char** argv) { return tandem::client::Run({argv + 1, argv + argc}); }
