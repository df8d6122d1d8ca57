// What a session knows about its target. A plain value.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/ids.h"

namespace tandem::orchestrator {

class TargetPace;

// A connected target.
struct TargetInfo {
  base::Incarnation incarnation{};  // the stream's; no two streams of any targets share one
  std::string name;                 // its address
  std::string model_id;
  std::string numerics_id;  // equal ids mean equal bits
  uint32_t vocabulary_size = 0;
  uint32_t max_draft_tokens = 0;
  std::shared_ptr<TargetPace> pace;
};

}  // namespace tandem::orchestrator
