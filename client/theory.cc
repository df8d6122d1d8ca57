// `tandem theory`: what speculation wins on paper. It needs no service.
#include <cstdio>
#include <string>

#include "client/commands.h"
#include "client/theory_options.h"
#include "client/theory_report.h"

namespace tandem::client {

int RunTheory(absl::Span<const std::string> args) {
  TheoryOptions options;
  FlagSet flags("tandem theory",
                "What speculation wins on paper, by how often candidates are accepted.\n"
                "Without flags: the paper's table 1.");
  options.AddTo(flags);
  if (PrintedHelp(args, flags)) return kExitOk;
  absl::Status status = flags.Parse(args);
  status.Update(status.ok() ? options.Validate() : status);
  if (!status.ok()) {
    PrintError(status);
    return kExitUsage;
  }
  const TheoryReport report = MakeTheoryReport(options);
  std::printf("%s",
              options.json ? (TheoryJson(report) + "\n").c_str() : TheoryTables(report).c_str());
  return kExitOk;
}

}  // namespace tandem::client
