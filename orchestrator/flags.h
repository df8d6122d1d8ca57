// The command line of tandem-orchestrator.
//
// Thread safety: plain values.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/flags/flag_set.h"
#include "common/transport/server_flags.h"
#include "orchestrator/http_front.h"
#include "orchestrator/options.h"

namespace tandem::orchestrator {

struct Flags {
  Flags();

  transport::ServerFlags server;
  HttpFlags http;
  absl::Duration drain_delay = absl::ZeroDuration();
  Options options;  // only the fields that have flags are set

  void AddTo(flags::FlagSet& flags);
  // INVALID_ARGUMENT names each bad flag. Opens no file and no port, and resolves no name.
  absl::Status Validate() const;
};

}  // namespace tandem::orchestrator
