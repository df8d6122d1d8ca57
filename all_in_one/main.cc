// `tandem-model`: the commands that need models in the process. `tandem serve` starts it.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "all_in_one/derive_ngrams.h"
#include "all_in_one/model_server.h"
#include "all_in_one/prune_vocabulary.h"
#include "all_in_one/serve_options.h"
#include "common/base/excerpt.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/flags/nearest_name.h"
#include "common/process/exit_codes.h"
#include "common/process/library_locks.h"
#include "common/process/process.h"
#include "common/process/room.h"
#include "common/process/service_main.h"
#include "common/process/standard_output.h"
#include "common/security/grpc_log.h"

namespace tandem::all_in_one {
namespace {

constexpr char kUsage[] =
    R"(Tandem's commands that load models.

Usage: tandem-model COMMAND [flags]

  serve          draft service, target service and orchestrator in one process
  derive-ngrams  asks a model for its n-grams once, for drafts that need no model
  prune-vocabulary
                 makes a draft model that proposes the commonest tokens of a corpus alone
  version        print the version
  help           this text; `tandem-model COMMAND --help` tells a command's flags
)";

int Fail(const absl::Status& status, int code) {
  std::fprintf(stderr, "error: %s\n", base::MessageForTerminal(status.message()).c_str());
  return code;
}

// Fills `options` from the arguments of a command. Returns the exit status if the command ends
// here: help was asked for, or something is wrong.
template <typename Options>
std::optional<int> Read(const std::vector<std::string>& args, flags::FlagSet& flags,
                        Options& options) {
  options.AddTo(flags);
  if (const std::optional<std::string> told = flags.Told(args)) {
    process::Print(*told);
    return process::kExitOk;
  }
  absl::Status status = flags.Parse(args);
  if (status.ok()) status = options.Validate();
  if (!status.ok()) return Fail(status, process::kExitUsage);
  return std::nullopt;
}

absl::Status ServeUntilSignal(const ServeOptions& options) {
  security::TakeOverGrpcLog();
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<ModelServer> server, ModelServer::Start(options));
  TANDEM_RETURN_IF_ERROR(process::WritePortFile(options.server.port_file, server->port()));
  TANDEM_LOG(kInfo) << base::LogFields("ready").Add("port", server->port());
  process::WatchUntilStopSignal([&] { return server->busy_for(); },
                                [&](bool alive) { server->SetAlive(alive); },
                                [&] { return !server->failure().ok(); });
  const absl::Status failure = server->failure();
  if (!failure.ok()) {
    process::EndWithin(/*seconds=*/10);
    server->Drain(absl::ZeroDuration());
    return failure;
  }
  TANDEM_LOG(kInfo) << base::LogFields("draining").Add("grace", options.server.grace);
  server->Drain(options.server.grace);
  server = nullptr;
  TANDEM_LOG(kInfo) << base::LogFields("stopped");
  return absl::OkStatus();
}

int Serve(absl::Span<const std::string> args) {
  ServeOptions options;
  return process::RunService(
      args, {.name = "tandem serve",
             .summary = "Serves a target and a draft: all three services in one process.",
             .arguments = "--target-model=MODEL [--draft-model=MODEL] [flags]",
             .is_command = true,
             .add_flags = [&options](flags::FlagSet& set) { options.AddTo(set); },
             .check = [&options] { return options.Validate(); },
             .serve = [&options] { return ServeUntilSignal(options); }});
}

// A command that makes something for drafts, and ends.
template <typename Options>
int Make(flags::FlagSet flags, absl::Status (*make)(Options options),
         const std::vector<std::string>& args) {
  Options options;
  if (const std::optional<int> ended = Read(args, flags, options)) return *ended;
  process::ExitWhenOutOfMemory("tandem-model");
  const absl::Status status = make(std::move(options));
  return status.ok() ? process::kExitOk : Fail(status, process::kExitFailure);
}

int Derive(const std::vector<std::string>& args) {
  return Make(flags::FlagSet("tandem derive-ngrams",
                             "Derives n-grams from a model: what it continues each token with. A "
                             "draft service proposes from that file without a model (tandem-draft "
                             "--ngrams=FILE).",
                             "--model=MODEL --out=FILE [flags]"),
              &DeriveNgrams, args);
}

int Prune(const std::vector<std::string>& args) {
  return Make(flags::FlagSet("tandem prune-vocabulary",
                             "Writes a draft model that computes logits for, and so proposes, "
                             "only the most frequent tokens of a corpus. Its passes take less "
                             "time.",
                             "--model=MODEL --corpus=FILE --out=DIRECTORY [flags]"),
              &PruneVocabulary, args);
}

int Run(const std::vector<std::string>& args) {
  if (args.empty()) {
    std::fprintf(stderr, "%s", kUsage);
    return process::kExitUsage;
  }
  if (args[0] == "serve") return Serve(absl::MakeConstSpan(args).subspan(1));
  if (args[0] == "derive-ngrams") return Derive({args.begin() + 1, args.end()});
  if (args[0] == "prune-vocabulary") return Prune({args.begin() + 1, args.end()});
  if (args[0] == "version" || args[0] == "--version") {
    process::Print(absl::StrCat("tandem-model ", base::Version(), "\n"));
    return process::kExitOk;
  }
  if (args[0] == "help" || args[0] == "--help" || args[0] == "-h") {
    process::Print(kUsage);
    return process::kExitOk;
  }
  return Fail(absl::InvalidArgumentError(absl::StrCat(
                  "unknown command '", args[0],
                  "'; must be serve, derive-ngrams, prune-vocabulary, version or help",
                  flags::DidYouMean(
                      args[0], {"serve", "derive-ngrams", "prune-vocabulary", "version", "help"}))),
              process::kExitUsage);
}

}  // namespace
}  // namespace tandem::all_in_one

int main(int argc, char** argv) {
  tandem::process::StopDeadlockDetection();
  const int code = tandem::all_in_one::Run({argv + 1, argv + argc});
  const absl::Status printed = tandem::process::PrintStatus();
  return printed.ok() ? code : tandem::all_in_one::Fail(printed, tandem::process::kExitFailure);
}
