// What a target reports of the rounds of all its streams (Decoding, describe.proto). All
// orchestrators price their blocks by it, and so come to the same lengths. A plain value.
#pragma once

#include <cstdint>
#include <optional>

namespace tandem::orchestrator {

struct DecodingLoad {
  uint32_t sequences = 0;       // decoded at the same time; 0: unknown
  uint32_t pass_rows = 0;       // that a pass of rounds aims at; 0: takes all
  uint32_t pass_sequences = 1;  // that it takes whatever their rows
  std::optional<double> draft_tokens =
      std::nullopt;  // per round, on average; absent: nothing was reported
};

}  // namespace tandem::orchestrator
