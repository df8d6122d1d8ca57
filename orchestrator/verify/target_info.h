// What a session knows about its target. A plain value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
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
  uint32_t max_length = 0;  // tokens that a sequence may have there; 0: it does not say
  std::shared_ptr<TargetPace> pace;
  uint32_t max_nodes = 0;  // draft tokens in a tree; 0: it takes chains alone
  bool chains = false;     // it takes chained Steps (target.proto, Step.after)
};

// What a target says that it has for one more sequence.
struct FreeRoom {
  uint32_t slots = 0;
  std::optional<int64_t> tokens = std::nullopt;  // absent: it does not say
};

// Tokens that a sequence of `length` tokens reserves at the target: a block may run past its end.
// `max_nodes`: of the trees that the request asks for.
inline int64_t RoomAt(const TargetInfo& target, uint32_t length, uint32_t max_nodes) {
  const int64_t room =
      int64_t{length} + std::max(target.max_draft_tokens, std::min(max_nodes, target.max_nodes));
  return target.max_length > 0 ? std::min<int64_t>(room, target.max_length) : room;
}

}  // namespace tandem::orchestrator
