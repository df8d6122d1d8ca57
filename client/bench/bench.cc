// `tandem bench` compares requests with a draft and without one. It sends one request at a time or
// many at once, and the modes take turns.
#include "client/common/commands.h"

#include <grpcpp/channel.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/bench/conversations.h"
#include "client/bench/load_json.h"
#include "client/bench/load_report.h"
#include "client/bench/options.h"
#include "client/bench/report.h"
#include "client/bench/runs.h"
#include "client/common/command_line.h"
#include "client/common/connection.h"
#include "common/base/read_file.h"
#include "common/base/status_macros.h"
#include "common/process/exit_codes.h"
#include "common/process/standard_output.h"

namespace tandem::client {
namespace {

constexpr int64_t kMaxPromptsBytes = 64 << 20;

absl::StatusOr<std::string> Contents(const char* flag, const std::string& path) {
  absl::StatusOr<std::string> text = base::ReadFileOrPipe(path, kMaxPromptsBytes);
  if (!text.ok()) {
    return absl::Status(text.status().code(),
                        absl::StrCat("--", flag, "=", text.status().message()));
  }
  return text;
}

// Requests with a prompt, and nothing else.
absl::StatusOr<std::vector<v1::GenerateRequest>> Prompts(const BenchOptions& options) {
  std::vector<v1::GenerateRequest> requests;
  if (!options.chat_file.empty()) {
    TANDEM_ASSIGN_OR_RETURN(const std::string text, Contents("chat", options.chat_file));
    TANDEM_ASSIGN_OR_RETURN(std::vector<v1::Conversation> conversations,
                            ParseConversations(text, options.chat_file));
    for (v1::Conversation& one : conversations) {
      *requests.emplace_back().mutable_conversation() = std::move(one);
    }
  } else {
    std::vector<std::string> prompts = BuiltInPrompts();
    if (!options.prompts_file.empty()) {
      TANDEM_ASSIGN_OR_RETURN(const std::string text,
                              Contents("prompts-file", options.prompts_file));
      TANDEM_ASSIGN_OR_RETURN(prompts, ParsePrompts(text, options.prompts_file));
    }
    for (std::string& prompt : prompts) requests.emplace_back().set_text(std::move(prompt));
  }
  if (options.prompts > 0 && options.prompts < requests.size()) requests.resize(options.prompts);
  return requests;
}

// Prints the results. After an error it prints the results of a load so far. DATA_LOSS means that
// some requests failed.
absl::Status RunAndPrint(const BenchOptions& options,
                         const std::vector<v1::GenerateRequest>& prompts,
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
  std::vector<v1::GenerateRequest> prompts;
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
