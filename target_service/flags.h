// What tandem-target is told on its command line.
//
// Thread safety: plain values.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/flags/flag_set.h"
#include "common/transport/server_flags.h"
#include "model/load_flags.h"
#include "target_service/engine/engine_factory.h"
#include "target_service/options.h"

namespace tandem::target_service {

struct Flags {
  Flags();  // threads follow the machine

  transport::ServerFlags server;
  model::LoadFlags load;
  std::string device;  // of EngineNames() (engines.h)
  std::optional<double> gpu_memory_utilization;
  int max_rows = model::LoadOptions().max_rows;  // of a pass
  bool mma_attention = false;                    // EngineOptions::mma_attention
  bool check_device = false;                     // check it, say what was found, and end
  std::string generation_config = "model";       // whose sampling defaults count: model, or none
  Options options;                               // of these, what flags say

  void AddTo(flags::FlagSet& flags);
  // INVALID_ARGUMENT naming each bad flag. Looks at no file, no port.
  absl::Status Validate() const;
  // Without what only the tokenizer knows.
  absl::StatusOr<target_service::EngineOptions> EngineOptions() const;
};

}  // namespace tandem::target_service
