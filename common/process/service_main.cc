#include "common/process/service_main.h"

#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/version.h"
#include "common/process/descriptors.h"
#include "common/process/exit_codes.h"
#include "common/process/library_locks.h"
#include "common/process/process.h"
#include "common/process/room.h"
#include "common/process/standard_output.h"

namespace tandem::process {

namespace {

int Fail(const ServiceMain& service, const absl::Status& status) {
  std::cerr << service.name << ": " << status.message() << "\n";
  return kExitFailure;
}

// The end of a program that only says something.
int Say(const ServiceMain& service, absl::string_view text) {
  Print(text);
  const absl::Status printed = PrintStatus();
  return printed.ok() ? kExitOk : Fail(service, printed);
}

}  // namespace

int RunService(int argc, char** argv, const ServiceMain& service) {
  StopDeadlockDetection();
  const std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  flags::FlagSet flags(service.name, service.summary, service.arguments);
  flags.LastOneCounts();
  service.add_flags(flags);
  bool check_only = false;
  bool version = false;
  flags.Group("Flags themselves");
  flags.FlagFiles();
  flags.Switch(
      "check-flags", &check_only,
      "only say whether the flags are right, those of flag files, too: \"flags OK\" and exit "
      "code 0, or what is wrong and 1. No file but flag files is looked at, no port is opened");
  flags.Switch("version", &version, "say the version and exit");

  if (const std::optional<std::string> told = flags.Told(args)) return Say(service, *told);
  absl::Status status = flags.Parse(args);
  if (status.ok() && version) {
    return Say(service, absl::StrCat(service.name, " ", base::Version(), "\n"));
  }
  if (status.ok()) status = service.check();
  if (status.ok() && check_only) return Say(service, "flags OK\n");
  if (status.ok()) {
    BlockStopSignals();
    RaiseDescriptorLimit();
    ExitWhenOutOfMemory(service.name.c_str());
    status = CheckRoomForService();
    if (status.ok()) status = service.serve();
  }
  return status.ok() ? kExitOk : Fail(service, status);
}

}  // namespace tandem::process
