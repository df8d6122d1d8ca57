// The flags of the log, which every service has.
#pragma once

#include <string>

#include "common/flags/flag_set.h"

namespace tandem::process {

// Plain value.
struct LogFlags {
  std::string format = "text";
  std::string level = "info";

  // --log-format and --log-level, in a group of their own.
  void AddTo(flags::FlagSet& flags);
  // Process-wide (common/base/log.h).
  void Apply() const;
};

}  // namespace tandem::process
