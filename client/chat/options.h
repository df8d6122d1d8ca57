// The options of `tandem chat`.
//
// Thread safety: plain values.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/common/orchestrator_flags.h"
#include "client/common/request_flags.h"
#include "common/flags/flag_set.h"

namespace tandem::client {

struct ChatOptions {
  OrchestratorFlags orchestrator;
  std::string system;                             // the system's message; empty: none
  std::string template_arguments;                 // a JSON object; empty: none
  uint64_t max_tokens = 0;                        // of an answer; 0 = the orchestrator's default
  std::string cache_scope;                        // empty: one of the command's own
  absl::Duration timeout = absl::ZeroDuration();  // of an answer; 0 = unlimited
  bool quiet = false;                             // answers alone
  std::string color = "auto";                     // auto, always, never
  RequestFlags request;

  void AddTo(flags::FlagSet& flags);
  absl::Status Validate() const;  // INVALID_ARGUMENT names the flag
};

}  // namespace tandem::client
