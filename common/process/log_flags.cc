#include "common/process/log_flags.h"

#include "common/base/log.h"

namespace tandem::process {

using base::LogFormat;
using base::LogLevel;

void LogFlags::AddTo(flags::FlagSet& flags) {
  flags.Group("Log");
  flags.Choice("log-format", &format, {"text", "json"},
               "form of the lines on stderr: text, or json, an object a line");
  flags.Choice("log-level", &level, {"info", "warning", "error"},
               "the least important lines that are written: info, warning or error");
}

void LogFlags::Apply() const {
  base::SetLogFormat(format == "json" ? LogFormat::kJson : LogFormat::kText);
  base::SetMinLogLevel(level == "error"     ? LogLevel::kError
                       : level == "warning" ? LogLevel::kWarning
                                            : LogLevel::kInfo);
}

}  // namespace tandem::process
