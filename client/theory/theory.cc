// `tandem theory` prints what speculation can win: by formulas, or by times that are given or that
// an orchestrator measured.
#include "client/common/commands.h"

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "client/common/command_line.h"
#include "client/common/connection.h"
#include "client/common/questions.h"
#include "client/theory/options.h"
#include "client/theory/report.h"
#include "common/base/status_macros.h"
#include "common/process/exit_codes.h"
#include "common/process/standard_output.h"

namespace tandem::client {
namespace {

absl::Status AskOrchestrator(const std::shared_ptr<grpc::Channel>& channel,
                             TheoryOptions& options) {
  TANDEM_ASSIGN_OR_RETURN(const v1::DescribeReply measured,
                          Describe(*v1::Generation::NewStub(channel)));
  return options.TakeFrom(measured);
}

}  // namespace

int RunTheory(absl::Span<const std::string> args) {
  TheoryOptions options;
  flags::FlagSet flags("tandem theory",
                       "Tells what speculation can win: the best number of draft tokens per round, "
                       "the speed,\nand how fast a draft must be to pay. Without flags: the "
                       "paper's table 1.");
  options.AddTo(flags);
  if (const auto code = ReadArguments(args, flags, [&] { return options.Validate(); })) {
    return *code;
  }
  if (!options.orchestrator.address.empty()) {
    int exit_code = process::kExitOk;
    const std::shared_ptr<grpc::Channel> channel = ConnectTo(options.orchestrator, exit_code);
    if (channel == nullptr) return exit_code;
    if (absl::Status told = AskOrchestrator(channel, options); !told.ok()) {
      PrintError(told);
      return process::kExitFailure;
    }
  }
  const TheoryReport report = MakeTheoryReport(options);
  process::Print(options.json ? TheoryJson(report) + "\n" : TheoryTables(report));
  return process::kExitOk;
}

}  // namespace tandem::client
