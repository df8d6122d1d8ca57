#include "client/theory/theory.h"

#include <string>

#include "client/common/command_line.h"
#include "client/theory/options.h"
#include "client/theory/report.h"
#include "common/process/exit_codes.h"
#include "common/process/standard_output.h"

namespace tandem::client {

int RunTheory(absl::Span<const std::string> args) {
  TheoryOptions options;
  flags::FlagSet flags("tandem theory",
                       "What speculation wins on paper, by how often candidates are accepted.\n"
                       "Without flags: the paper's table 1.");
  options.AddTo(flags);
  if (PrintedHelp(args, flags)) return process::kExitOk;
  absl::Status status = flags.Parse(args);
  status.Update(status.ok() ? options.Validate() : status);
  if (!status.ok()) {
    PrintError(status);
    return process::kExitUsage;
  }
  const TheoryReport report = MakeTheoryReport(options);
  process::Print(options.json ? TheoryJson(report) + "\n" : TheoryTables(report));
  return process::kExitOk;
}

}  // namespace tandem::client
