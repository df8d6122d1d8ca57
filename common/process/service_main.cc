#include "common/process/service_main.h"

#include <cstdlib>
#include <iostream>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/version.h"
#include "common/process/process.h"

ABSL_FLAG(bool, check_flags, false,
          "Only say whether the flags, those of --flagfile too, are right: \"flags OK\" and exit "
          "code 0, or what is "
          "wrong and 1. No file but flag files is looked at, no port is opened.");

namespace tandem::process {

int RunService(int argc, char** argv, const ServiceMain& service) {
  absl::SetProgramUsageMessage(service.usage);
  // Without this --help shows the flags of files that are named like the binary: none.
  absl::FlagsUsageConfig usage;
  usage.contains_help_flags = [](absl::string_view file) {
    return absl::EndsWith(file, "main.cc");
  };
  usage.contains_helpshort_flags = usage.contains_help_flags;
  usage.version_string = [&service] {
    return absl::StrCat(service.name, " ", base::Version(), "\n");
  };
  absl::SetFlagsUsageConfig(usage);
  DashesToUnderscores(argc, argv);
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  if (rest.size() > 1) {
    std::cerr << service.name << ": \"" << rest[1] << "\" is no flag; all arguments are flags\n";
    return EXIT_FAILURE;
  }
  absl::Status status = service.check();
  if (status.ok() && absl::GetFlag(FLAGS_check_flags)) {
    std::cout << "flags OK\n";
    return EXIT_SUCCESS;
  }
  if (status.ok()) {
    BlockStopSignals();
    status = service.serve();
  }
  if (status.ok()) return EXIT_SUCCESS;
  std::cerr << service.name << ": " << status.message() << "\n";
  return EXIT_FAILURE;
}

absl::Status CheckTimeFlag(absl::string_view flag, absl::Duration value, absl::Duration max) {
  if (value >= absl::ZeroDuration() && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(flag, " is ", absl::FormatDuration(value),
                                                 "; it must be 0 to ", absl::FormatDuration(max)));
}

}  // namespace tandem::process
