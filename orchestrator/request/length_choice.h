// What a length policy chose for a round, and what it knew. Plain values.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"

namespace tandem::orchestrator {

// Who decides the number of draft tokens of a request that leaves it open.
enum class LengthMode : uint8_t { kAuto, kHeuristic };

// Why a policy chose no draft. The names are part of the interface (generation.proto,
// LengthRecord).
enum class ZeroCause : uint8_t {
  kLoad,        // rows of other sequences fill the target's passes: alone, a draft would pay
  kAcceptance,  // too few draft tokens are accepted: even a draft that takes no time would not pay
  kSlowDraft,   // the draft takes too long
};
inline constexpr int kZeroCauses = 3;

const char* Name(ZeroCause cause);

// The policy's estimates. Absent where it has none.
struct LengthEstimates {
  std::optional<double> alpha;  // chance that a draft token is accepted, given those before it
  std::optional<absl::Duration> draft_token;  // time that one more draft token takes at the draft
  std::optional<double>
      min_confidence;  // LengthChoice::min_confidence; a block ends at it alone where absent
};

struct LengthChoice {
  uint32_t tokens = 0;        // on the longest path
  uint32_t nodes = 0;         // of a tree; 0: a chain
  double min_confidence = 0;  // ends the block (draft.proto, Shape); 0: does not
  std::optional<uint32_t> outcomes =
      std::nullopt;  // to prepare blocks for; absent: all that the request allows
  std::optional<ZeroCause> zero = std::nullopt;  // only with tokens = 0
  LengthEstimates estimates = {};
  bool trial = false;  // of a probe, while plain decoding is the best
};

}  // namespace tandem::orchestrator
