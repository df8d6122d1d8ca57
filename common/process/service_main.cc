#include "common/process/service_main.h"

#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/excerpt.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/flags/flag_set.h"
#include "common/process/exit_codes.h"
#include "common/process/library_locks.h"
#include "common/process/process.h"
#include "common/process/room.h"
#include "common/process/standard_output.h"

namespace tandem::process {

namespace {

// The flags of the log, which every service has.
struct LogFlags {
  std::string format = "text";
  std::string level = "info";

  // --log-format and --log-level, in a group of their own.
  void AddTo(flags::FlagSet& flags) {
    flags.Group("Log");
    flags.Choice("log-format", &format, {"text", "json"},
                 "form of the lines on stderr: text, or json, an object a line");
    flags.Choice("log-level", &level, {"info", "warning", "error"},
                 "the least important lines that are written: info, warning or error");
  }
  // Process-wide (common/base/log.h).
  void Apply() const {
    base::SetLogFormat(format == "json" ? base::LogFormat::kJson : base::LogFormat::kText);
    base::SetMinLogLevel(level == "error"     ? base::LogLevel::kError
                         : level == "warning" ? base::LogLevel::kWarning
                                              : base::LogLevel::kInfo);
  }
};

bool IsJson() { return base::GetLogFormat() == base::LogFormat::kJson; }

std::string ErrorText(const ServiceMain& service, const absl::Status& status) {
  return absl::StrCat(service.is_command ? "error" : service.name, ": ",
                      base::MessageForTerminal(status.message()));
}

// Before anything was tried.
int Refuse(const ServiceMain& service, const absl::Status& status) {
  const std::string text = ErrorText(service, status);
  if (IsJson()) {
    TANDEM_LOG(kError) << text;
  } else {
    std::cerr << text << "\n";
  }
  return service.is_command ? kExitUsage : kExitFailure;
}

int Fail(const ServiceMain& service, const absl::Status& status) {
  const std::string text = ErrorText(service, status);
  if (IsJson()) {
    TANDEM_LOG(kError) << text;
  } else {
    // Hints stand on lines of their own.
    for (absl::string_view line : absl::StrSplit(text, '\n')) TANDEM_LOG(kError) << line;
  }
  return kExitFailure;
}

// The end of a program that only says something.
int Say(const ServiceMain& service, absl::string_view text) {
  Print(text);
  const absl::Status printed = PrintStatus();
  return printed.ok() ? kExitOk : (Refuse(service, printed), kExitFailure);
}

}  // namespace

int RunService(int argc, char** argv, const ServiceMain& service) {
  StopDeadlockDetection();
  return RunService(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc), service);
}

int RunService(absl::Span<const std::string> args, const ServiceMain& service) {
  flags::FlagSet flags(service.name, service.summary, service.arguments);
  flags.LastOneCounts();
  service.add_flags(flags);
  LogFlags log;
  log.AddTo(flags);
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
  log.Apply();
  if (status.ok() && version) {
    return Say(service, absl::StrCat(service.name, " ", base::Version(), "\n"));
  }
  if (status.ok()) status = service.check();
  if (!status.ok()) return Refuse(service, status);
  if (check_only) return Say(service, "flags OK\n");
  BlockStopSignals();
  RaiseDescriptorLimit();
  ExitWhenOutOfMemory(service.name.c_str());
  status = CheckRoomForService();
  if (status.ok()) status = service.serve();
  return status.ok() ? kExitOk : Fail(service, status);
}

}  // namespace tandem::process
