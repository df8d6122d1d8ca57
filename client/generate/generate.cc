#include "client/generate/generate.h"

#include <grpcpp/channel.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/common/command_line.h"
#include "client/common/connection.h"
#include "client/generate/json_output.h"
#include "client/generate/logprob_table.h"
#include "client/generate/options.h"
#include "client/generate/resume.h"
#include "client/generate/summary.h"
#include "client/generate/terminal.h"
#include "client/generate/timeline.h"
#include "common/process/exit_codes.h"
#include "common/process/standard_output.h"
#include "common/random/system.h"

namespace tandem::client {
namespace {

using process::Print;

// Writes to standard output as replies come: one JSON object a line, or the text. The replies of
// several samples come mixed, so as text they are printed in order when all have ended.
void PrintReply(const v1::GenerateReply& reply, bool json, bool several) {
  if (json && reply.has_delta()) Print(JsonDelta(reply.delta()) + "\n");
  if (json && reply.has_prompt_logprobs()) {
    Print(JsonPromptLogprobs(reply.prompt_logprobs()) + "\n");
  }
  if (!json && !several && reply.has_delta()) Print(reply.delta().text());
}

// Prints the rest at the end of a request, and returns the exit code.
class Report {
 public:
  Report(const GenerateOptions& options, const v1::GenerateRequest& request, std::ofstream& record)
      : json_(options.format == "json"),
        several_(options.samples > 1),
        options_(options),
        request_(request),
        record_(record) {}

  int Ended(const Outcome& outcome) {
    if (!json_) EndText(outcome, /*complete=*/true);
    const bool recorded = Record(JsonFinal(outcome));
    if (!json_ && !options_.quiet) {
      std::fprintf(stderr, "\n%s%s%s%s", LogprobTable(outcome).c_str(), Summary(outcome).c_str(),
                   TraceHint(outcome).c_str(), Picture(outcome).c_str());
    }
    return recorded ? process::kExitOk : process::kExitFailure;
  }

  int Failed(const Outcome& outcome, const absl::Status& status) {
    if (!json_) EndText(outcome, /*complete=*/false);
    Record(outcome.has_started() ? JsonInterrupted(outcome, request_, status)
                                 : JsonRefused(status));
    if (WasCancelled()) {
      std::fprintf(stderr, "cancelled\n");
    } else {
      PrintError(status);
    }
    std::fprintf(stderr, "%s%s%s", TraceLine(outcome).c_str(),
                 ResumeHint(outcome, request_).c_str(),
                 json_ || outcome.rounds.empty() ? "" : Picture(outcome).c_str());
    return WasCancelled() ? process::kExitCancelled : process::kExitFailure;
  }

 private:
  void EndText(const Outcome& outcome, bool complete) {
    if (!outcome.has_started()) return;
    Print(several_ ? SamplesText(outcome, options_.first_sample, complete) : "\n");
  }

  // Empty when no time line was asked for.
  std::string Picture(const Outcome& outcome) const {
    if (options_.timeline.empty()) return "";
    const TimelineOptions timeline{StyleFor(options_.color, AskTerminal(STDERR_FILENO)),
                                   options_.timeline == "all", options_.first_sample};
    return "\n" + Timeline(outcome.rounds, timeline);
  }

  // A hint if a trace was asked for and there is none.
  std::string TraceHint(const Outcome& outcome) const {
    if (!options_.trace || !outcome.started.trace_id().empty()) return "";
    return "  not traced: this orchestrator exports no traces (OTEL_TRACES_EXPORTER=otlp)\n";
  }

  // Writes the last line of JSON to standard output and to the file. Returns false if the file
  // could not be written.
  bool Record(const std::string& line) {
    if (json_) Print(line + "\n");
    if (!record_.is_open() || (record_ << line << std::endl)) return true;
    PrintError(absl::DataLossError("--record: the file could not be written"));
    return false;
  }

  const bool json_;
  const bool several_;
  const GenerateOptions& options_;
  const v1::GenerateRequest& request_;
  std::ofstream& record_;
};

}  // namespace

int RunGenerate(absl::Span<const std::string> args) {
  GenerateOptions options;
  flags::FlagSet flags("tandem generate",
                       "Streams the continuation of a prompt from an orchestrator.",
                       "[PROMPT] [flags]");
  options.AddTo(flags);
  if (PrintedHelp(args, flags)) return process::kExitOk;
  absl::Status status = flags.Parse(args);
  status.Update(status.ok() ? options.Validate() : status);
  absl::StatusOr<std::string> prompt = status.ok() ? options.prompt.Read() : status;
  if (!prompt.ok()) {
    PrintError(prompt.status());
    return process::kExitUsage;
  }
  std::ofstream record;
  if (!options.record.empty()) record.open(options.record);
  if (!options.record.empty() && !record.is_open()) {
    PrintError(flags::BadFlag("record", options.record, "cannot be opened for writing"));
    return process::kExitUsage;
  }
  CancelRequestsOnSignals();
  int exit_code = process::kExitOk;
  const std::shared_ptr<grpc::Channel> channel = ConnectTo(options.orchestrator, exit_code);
  if (channel == nullptr) return exit_code;
  const v1::GenerateRequest request = MakeRequest(options, *prompt);
  const bool json = options.format == "json";
  const bool several = options.samples > 1;
  Outcome outcome;
  const CallOptions call{options.timeout, MakeTraceparent(options, random::FromSystem)};
  status = Generate(*v1::Generation::NewStub(channel), request, call, outcome,
                    [&](const v1::GenerateReply& reply) { PrintReply(reply, json, several); });
  Report report(options, request, record);
  return status.ok() ? report.Ended(outcome) : report.Failed(outcome, status);
}

}  // namespace tandem::client
