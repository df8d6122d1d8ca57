// `tandem bench`: each prompt without a draft and with one, in turn, so that what else the machine
// does falls on both alike.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/bench_options.h"
#include "client/bench_report.h"
#include "client/commands.h"
#include "client/connection.h"
#include "common/config/status_macros.h"

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

// One line that counts up where somebody watches; a line a round of all prompts in a log.
void ShowProgress(size_t done, size_t all, size_t prompts) {
  const bool watched = isatty(STDERR_FILENO) != 0;
  if (watched) std::fprintf(stderr, "\r%zu of %zu pairs%s", done, all, done == all ? "\n" : "");
  if (!watched && done % prompts == 0) std::fprintf(stderr, "%zu of %zu pairs\n", done, all);
}

class Bench {
 public:
  Bench(BenchOptions options, v1::Generation::StubInterface& stub)
      : options_(std::move(options)), stub_(stub) {}

  absl::StatusOr<BenchReport> Run(const std::vector<std::string>& prompts) {
    std::vector<BenchPair> pairs;
    // One of each that does not count: pools, caches and peers get warm.
    TANDEM_RETURN_IF_ERROR(RunPair(prompts[0]).status());
    const size_t all = prompts.size() * options_.repeats;
    for (uint64_t repeat = 0; repeat < options_.repeats; ++repeat) {
      for (const std::string& prompt : prompts) {
        TANDEM_ASSIGN_OR_RETURN(BenchPair pair, RunPair(prompt));
        pairs.push_back(std::move(pair));
        ShowProgress(pairs.size(), all, prompts.size());
      }
    }
    if (differing_ > 0) {
      std::fprintf(stderr, "%d pairs wrote different texts (sampled texts may)\n", differing_);
    }
    return MakeReport(pairs);
  }

 private:
  absl::StatusOr<BenchPair> RunPair(const std::string& prompt) {
    v1::GenerateRequest request;
    request.set_text(prompt);
    request.set_max_tokens(static_cast<uint32_t>(options_.max_tokens));
    request.mutable_stop()->set_ignore_eos(true);  // both of a pair write equally much
    options_.sampling.Apply(request);
    v1::GenerateRequest plain = request;
    plain.mutable_speculation()->set_fixed(0);
    TANDEM_ASSIGN_OR_RETURN(Outcome a, Send(plain));
    TANDEM_ASSIGN_OR_RETURN(Outcome b, Send(request));
    if (a.token_ids != b.token_ids) ++differing_;
    return BenchPair{std::move(a.last), std::move(b.last)};
  }

  absl::StatusOr<Outcome> Send(const v1::GenerateRequest& request) {
    return Generate(stub_, request, absl::ZeroDuration(), [](const v1::Delta&) {});
  }

  const BenchOptions options_;
  v1::Generation::StubInterface& stub_;
  int differing_ = 0;
};

}  // namespace

int RunBench(absl::Span<const std::string> args) {
  BenchOptions options;
  FlagSet flags("tandem bench", "Runs prompts with and without a draft in turn.");
  options.AddTo(flags);
  if (PrintedHelp(args, flags)) return kExitOk;
  absl::Status status = flags.Parse(args);
  status.Update(status.ok() ? options.Validate() : status);
  absl::StatusOr<std::vector<std::string>> prompts;
  if (status.ok()) {
    prompts = Prompts(options);
  } else {
    prompts = status;
  }
  if (!prompts.ok()) {
    PrintError(prompts.status());
    return kExitUsage;
  }
  CancelRequestsOnSignals();
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = Connect(options.orchestrator);
  if (!channel.ok()) {
    PrintError(channel.status());
    return kExitFailure;
  }
  auto stub = v1::Generation::NewStub(*channel);
  absl::StatusOr<BenchReport> report = Bench(options, *stub).Run(*prompts);
  if (!report.ok()) {
    if (WasCancelled()) {
      std::fprintf(stderr, "\ncancelled\n");
      return kExitCancelled;
    }
    PrintError(report.status());
    return kExitFailure;
  }
  std::printf("%s",
              options.json ? (ReportJson(*report) + "\n").c_str() : ReportTable(*report).c_str());
  return kExitOk;
}

}  // namespace tandem::client
