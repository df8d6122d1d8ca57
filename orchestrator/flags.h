// What tandem-orchestrator is told on its command line.
//
// Thread safety: plain values.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/flags/flag_set.h"
#include "common/transport/server_flags.h"
#include "orchestrator/options.h"

namespace tandem::orchestrator {

struct Flags {
  Flags();

  transport::ServerFlags server;
  absl::Duration drain_delay = absl::ZeroDuration();
  Options options;  // of these, what other flags say

  void AddTo(flags::FlagSet& flags);
  // INVALID_ARGUMENT naming each bad flag. Looks at no file, no port, no name.
  absl::Status Validate() const;
};

}  // namespace tandem::orchestrator
