// A block that was made in advance. A plain value.
#pragma once

#include <cstdint>

#include "common/base/ids.h"
#include "common/speculation/candidate_tree.h"

namespace tandem::orchestrator {

// A block that the draft made before it was asked, for one outcome of its block `base`
// (draft.proto, Assumption).
struct PreparedBlock {
  base::BlockId base{};
  uint32_t node = 0;  // of `base`, at which acceptance is assumed to end; 0: the root
  uint32_t next_token = 0;
  speculation::CandidateTree block;  // as it was sent, well formed or not
};

}  // namespace tandem::orchestrator
