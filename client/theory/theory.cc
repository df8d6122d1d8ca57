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
  if (const auto code = ReadArguments(args, flags, [&] { return options.Validate(); })) {
    return *code;
  }
  const TheoryReport report = MakeTheoryReport(options);
  process::Print(options.json ? TheoryJson(report) + "\n" : TheoryTables(report));
  return process::kExitOk;
}

}  // namespace tandem::client
