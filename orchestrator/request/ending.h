// How a request's loop ended. A plain value.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "orchestrator/request/request.h"

namespace tandem::orchestrator {

// The end of one sample.
struct Ending {
  absl::Status status;
  Finish finish = Finish::kLength;  // set if the status is OK
  std::string stop_string;          // the stop string that matched; may be empty
  uint32_t output_tokens = 0;       // with the output prefix
  AcceptanceCounts counts;
  StageTimes times;
};

}  // namespace tandem::orchestrator
