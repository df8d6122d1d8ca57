// `tandem generate` streams text to the terminal and then reports how speculation went.
#include "client/common/commands.h"

#include <grpcpp/channel.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/common/accepted_text.h"
#include "client/common/command_line.h"
#include "client/common/connection.h"
#include "client/common/terminal.h"
#include "client/generate/json_output.h"
#include "client/generate/logprob_table.h"
#include "client/generate/options.h"
#include "client/generate/resume.h"
#include "client/generate/summary.h"
#include "client/generate/timeline.h"
#include "common/base/output_file.h"
#include "common/base/status_macros.h"
#include "common/process/exit_codes.h"
#include "common/process/standard_output.h"
#include "common/random/system.h"

namespace tandem::client {
namespace {

using process::Print;

// Writes to standard output as replies come: one JSON object a line, or the text. The replies of
// several samples come mixed, so as text they are printed in order when all have ended.
void PrintReply(const v1::GenerateReply& reply, bool json, bool several,
                const TerminalStyle& style) {
  if (json && reply.has_delta()) Print(JsonDelta(reply.delta()) + "\n");
  if (json && reply.has_prompt_logprobs()) {
    Print(JsonPromptLogprobs(reply.prompt_logprobs()) + "\n");
  }
  if (!json && !several && reply.has_delta()) Print(AcceptedText(reply.delta(), style));
}

// What becomes of a file that --record names.
base::Existing Existing(const GenerateOptions& options) {
  return options.force ? base::Existing::kReplace : base::Existing::kKeep;
}

absl::Status OfRecord(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("--record: ", status.message()));
}

// Prints the rest at the end of a request, and returns the exit code.
class Report {
 public:
  Report(const GenerateOptions& options, const v1::GenerateRequest& request)
      : json_(options.format == "json"),
        several_(options.samples > 1),
        options_(options),
        request_(request) {}

  int Ended(const Outcome& outcome) {
    if (!json_) EndText(outcome, /*complete=*/true);
    const bool recorded = Record(JsonFinal(outcome));
    if (!json_ && !options_.quiet) {
      std::fprintf(stderr, "\n%s%s%s%s%s", LogprobTable(outcome).c_str(), Summary(outcome).c_str(),
                   Legend().c_str(), TraceHint(outcome).c_str(), Picture(outcome).c_str());
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
    Print(several_ ? SamplesText(outcome, options_.request.request.first_sample(), complete)
                   : "\n");
  }

  // Of the colours in the text; empty if it has none.
  std::string Legend() const {
    if (!request_.text_runs()) return "";
    return AcceptedLegend(StyleFor(options_.color, AskTerminal(STDERR_FILENO)));
  }

  // Empty when no time line was asked for.
  std::string Picture(const Outcome& outcome) const {
    if (options_.timeline.empty()) return "";
    const TimelineOptions timeline{StyleFor(options_.color, AskTerminal(STDERR_FILENO)),
                                   options_.timeline == "all",
                                   options_.request.request.first_sample()};
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
    if (options_.record.empty()) return true;
    const absl::Status written = base::WriteFile(options_.record, line + "\n", Existing(options_));
    if (!written.ok()) PrintError(OfRecord(written));
    return written.ok();
  }

  const bool json_;
  const bool several_;
  const GenerateOptions& options_;
  const v1::GenerateRequest& request_;
};

}  // namespace

int RunGenerate(absl::Span<const std::string> args) {
  GenerateOptions options;
  flags::FlagSet flags("tandem generate",
                       "Streams the continuation of a prompt from an orchestrator.",
                       "[PROMPT] [flags]");
  options.AddTo(flags);
  std::string prompt;
  const auto check = [&]() -> absl::Status {
    TANDEM_RETURN_IF_ERROR(options.Validate());
    TANDEM_ASSIGN_OR_RETURN(prompt, options.prompt.Read());
    if (options.record.empty()) return absl::OkStatus();
    return OfRecord(base::CheckOutput(options.record, Existing(options)));
  };
  if (const auto code = ReadArguments(args, flags, check)) return *code;
  CancelRequestsOnSignals();
  int exit_code = process::kExitOk;
  const std::shared_ptr<grpc::Channel> channel = ConnectTo(options.orchestrator, exit_code);
  if (channel == nullptr) return exit_code;
  v1::GenerateRequest request = MakeRequest(options, prompt);
  const bool json = options.format == "json";
  const bool several = options.samples > 1;
  const TerminalStyle style = StyleFor(options.color, AskTerminal(STDOUT_FILENO));
  request.set_text_runs(style.color && !json && !several);
  Outcome outcome;
  const CallOptions call{options.timeout, MakeTraceparent(options, random::FromSystem)};
  const absl::Status status =
      Generate(*v1::Generation::NewStub(channel), request, call, outcome,
               [&](const v1::GenerateReply& reply) { PrintReply(reply, json, several, style); });
  Report report(options, request);
  return status.ok() ? report.Ended(outcome) : report.Failed(outcome, status);
}

}  // namespace tandem::client
