// What a session knows of the target that it is at. A plain value.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/ids.h"

namespace tandem::orchestrator {

class TargetPace;

// What a connected target is.
struct TargetInfo {
  base::Incarnation
      incarnation{};  // of the stream to it; no two streams share one, of whichever targets
  std::string name;   // its address
  std::string model_id;
  std::string numerics_id;  // equal ids, equal bits
  uint32_t vocabulary_size = 0;
  uint32_t max_draft_tokens = 0;
  std::shared_ptr<TargetPace> pace;
};

}  // namespace tandem::orchestrator
