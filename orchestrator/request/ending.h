// What a request's loop says at its end. A plain value.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "orchestrator/request/request.h"

namespace tandem::orchestrator {

// How a request ended.
struct Ending {
  absl::Status status;
  Finish finish = Finish::kLength;  // when OK
  std::string stop_string;          // the one that matched; may be empty
  uint32_t output_tokens = 0;       // output prefix included
  AcceptanceCounts counts;
  StageTimes times;
};

}  // namespace tandem::orchestrator
