// `tandem describe` tells what an orchestrator says of itself, its targets and its drafts.
#include "client/common/commands.h"

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "client/common/command_line.h"
#include "client/common/connection.h"
#include "client/common/orchestrator_flags.h"
#include "client/common/questions.h"
#include "client/describe/description.h"
#include "common/process/exit_codes.h"
#include "common/process/standard_output.h"

namespace tandem::client {
int RunDescribe(absl::Span<const std::string> args) {
  OrchestratorFlags orchestrator;
  std::string format = "table";
  flags::FlagSet flags("tandem describe",
                       "Prints what an orchestrator, its targets and its drafts serve.");
  orchestrator.AddTo(flags);
  flags.Group("Output");
  flags.Choice("format", &format, {"table", "json"}, "table, or json: one object");
  if (const auto code = ReadArguments(args, flags, [&] { return orchestrator.Validate(); })) {
    return *code;
  }
  int exit_code = process::kExitOk;
  const std::shared_ptr<grpc::Channel> channel = ConnectTo(orchestrator, exit_code);
  if (channel == nullptr) return exit_code;
  const auto stub = v1::Generation::NewStub(channel);
  const absl::StatusOr<v1::DescribeReply> services = Describe(*stub);
  const absl::StatusOr<v1::ListModelsReply> models =
      services.ok() ? ListModels(*stub) : services.status();
  if (!models.ok()) {
    PrintError(models.status());
    return process::kExitFailure;
  }
  process::Print(format == "json" ? DescriptionJson(orchestrator.address, *services, *models) + "\n"
                                  : DescriptionTable(orchestrator.address, *services, *models));
  return process::kExitOk;
}

}  // namespace tandem::client
