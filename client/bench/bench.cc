#include "client/bench/bench.h"

#include <grpcpp/channel.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/bench/load_json.h"
#include "client/bench/load_report.h"
#include "client/bench/options.h"
#include "client/bench/report.h"
#include "client/bench/runs.h"
#include "client/common/command_line.h"
#include "client/common/connection.h"
#include "common/base/status_macros.h"
#include "common/process/exit_codes.h"
#include "common/process/standard_output.h"

namespace tandem::client {
namespace {

absl::StatusOr<std::vector<std::string>> Prompts(const BenchOptions& options) {
  std::vector<std::string> prompts = BuiltInPrompts();
  if (!options.prompts_file.empty()) {
    std::ifstream stream(options.prompts_file, std::ios::binary);
    if (!stream.is_open()) {
      return absl::NotFoundError(
          absl::StrCat("--prompts-file=", options.prompts_file, ": cannot be opened"));
    }
    const std::string text(std::istreambuf_iterator<char>(stream), {});
    TANDEM_ASSIGN_OR_RETURN(prompts, ParsePrompts(text, options.prompts_file));
  }
  if (options.prompts > 0 && options.prompts < prompts.size()) prompts.resize(options.prompts);
  return prompts;
}

// Prints the results. After an error it prints the results of a load so far. DATA_LOSS means that
// some requests failed.
absl::Status RunAndPrint(const BenchOptions& options, const std::vector<std::string>& prompts,
                         v1::Generation::StubInterface& stub) {
  if (options.idle) {
    TANDEM_ASSIGN_OR_RETURN(const std::vector<IdlePair> pairs, RunIdle(options, prompts, stub));
    const double silence = absl::ToDoubleSeconds(options.silence);
    process::Print(options.json ? IdleJson(pairs, silence) + "\n" : IdleText(pairs, silence));
    return absl::OkStatus();
  }
  if (options.concurrency.empty()) {
    TANDEM_ASSIGN_OR_RETURN(const BenchReport report, RunPairs(options, prompts, stub));
    process::Print(options.json ? ReportJson(report) + "\n" : ReportTable(report));
    return absl::OkStatus();
  }
  std::vector<LoadTable> tables;
  const absl::Status status = RunLoad(options, prompts, tables);
  if (options.json) {
    process::Print(LoadTablesJson(tables) + "\n");
  } else {
    for (const LoadTable& table : tables) process::Print(LoadTableText(table) + "\n");
    process::Print(RatioText(tables));
  }
  TANDEM_RETURN_IF_ERROR(status);
  const uint64_t failed = CountFailures(tables);
  if (failed == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(failed, " requests failed; the table counts them"));
}

}  // namespace

int RunBench(absl::Span<const std::string> args) {
  BenchOptions options;
  flags::FlagSet flags("tandem bench",
                       "Compares requests with and without a draft, one or many at once.");
  options.AddTo(flags);
  std::vector<std::string> prompts;
  const auto check = [&]() -> absl::Status {
    TANDEM_RETURN_IF_ERROR(options.Validate());
    TANDEM_ASSIGN_OR_RETURN(prompts, Prompts(options));
    return absl::OkStatus();
  };
  if (const auto code = ReadArguments(args, flags, check)) return *code;
  CancelRequestsOnSignals();
  int exit_code = process::kExitOk;
  const std::shared_ptr<grpc::Channel> channel = ConnectTo(options.orchestrator, exit_code);
  if (channel == nullptr) return exit_code;
  const absl::Status done = RunAndPrint(options, prompts, *v1::Generation::NewStub(channel));
  if (done.ok()) return process::kExitOk;
  if (WasCancelled()) {
    std::fprintf(stderr, "\ncancelled\n");
    return process::kExitCancelled;
  }
  PrintError(done);
  return process::kExitFailure;
}

}  // namespace tandem::client
