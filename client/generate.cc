// `tandem generate`: streams text to the terminal, then tells how speculation went.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/commands.h"
#include "client/connection.h"
#include "client/generate_options.h"
#include "client/output.h"
#include "common/config/status_macros.h"

namespace tandem::client {
namespace {

absl::StatusOr<std::string> ReadPrompt(const GenerateOptions& options) {
  if (options.prompt) return *options.prompt;
  std::string text;
  const std::string& file = *options.prompt_file;
  if (file == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    std::ifstream stream(file, std::ios::binary);
    if (!stream.is_open()) {
      return absl::NotFoundError(absl::StrCat("--prompt-file=", file, ": cannot be opened"));
    }
    text.assign(std::istreambuf_iterator<char>(stream), {});
    if (stream.bad()) {
      return absl::NotFoundError(absl::StrCat("--prompt-file=", file, ": cannot be read"));
    }
  }
  TANDEM_RETURN_IF_ERROR(CheckPrompt(text, file == "-" ? "standard input" : file));
  return text;
}

// Standard output as it comes: text as it is, or one JSON object a line.
void PrintDelta(const v1::Delta& delta, bool json) {
  const std::string text = json ? JsonDelta(delta) + "\n" : delta.text();
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

int Report(const absl::StatusOr<Outcome>& outcome, bool json, std::ofstream& record) {
  if (!json) std::printf("\n");
  if (!outcome.ok()) {
    std::fflush(stdout);
    if (WasCancelled()) {
      std::fprintf(stderr, "cancelled\n");
      return kExitCancelled;
    }
    PrintError(outcome.status());
    return kExitFailure;
  }
  const std::string final_line = JsonFinal(*outcome);
  if (json) std::printf("%s\n", final_line.c_str());
  if (record.is_open() && !(record << final_line << std::endl)) {
    PrintError(absl::DataLossError("--record: the file could not be written"));
    return kExitFailure;
  }
  std::fflush(stdout);
  if (!json) std::fprintf(stderr, "\n%s", Summary(*outcome).c_str());
  return kExitOk;
}

}  // namespace

int RunGenerate(absl::Span<const std::string> args) {
  GenerateOptions options;
  FlagSet flags("tandem generate", "Streams the continuation of a prompt from an orchestrator.");
  options.AddTo(flags);
  if (PrintedHelp(args, flags)) return kExitOk;
  absl::Status status = flags.Parse(args);
  status.Update(status.ok() ? options.Validate() : status);
  absl::StatusOr<std::string> prompt = status.ok() ? ReadPrompt(options) : status;
  if (!prompt.ok()) {
    PrintError(prompt.status());
    return kExitUsage;
  }
  std::ofstream record;
  if (!options.record.empty()) record.open(options.record);
  if (!options.record.empty() && !record.is_open()) {
    PrintError(BadFlag("record", options.record, "cannot be opened for writing"));
    return kExitUsage;
  }
  CancelRequestsOnSignals();
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = Connect(options.orchestrator);
  if (!channel.ok()) {
    PrintError(channel.status());
    return kExitFailure;
  }
  const bool json = options.format == "json";
  auto stub = v1::Generation::NewStub(*channel);
  return Report(Generate(*stub, MakeRequest(options, *prompt), options.timeout,
                         [json](const v1::Delta& delta) { PrintDelta(delta, json); }),
                json, record);
}

}  // namespace tandem::client
