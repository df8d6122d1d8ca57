// Which of the drafters that a request allows drafts a round, and why. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace tandem::orchestrator {

inline constexpr char kAnyDrafter[] = "auto";  // in place of names: all that there are
inline constexpr size_t kMaxDrafters = 16;     // that a request may name

// The names are part of the interface (generation.proto, RoundRecord).
enum class DrafterReason : uint8_t {
  kFirst,  // nothing is known of this text yet: the one that did best for other texts
  kTrial,  // it may be better for this text, and is measured for some rounds
  kBest,   // the highest throughput for this text so far
  kOther,  // a better one failed: its draft is lost, or refuses it
};
inline constexpr int kDrafterReasons = 4;

const char* Name(DrafterReason reason);

struct DrafterChoice {
  uint32_t index = 0;  // of the request's drafters
  DrafterReason reason = DrafterReason::kFirst;
  absl::string_view name = {};  // lives as long as the request; empty: the chooser does not say
};

// What one of a request's drafters did (generation.proto, DrafterRecord).
struct DrafterCounts {
  uint64_t rounds = 0;  // in which it was the one
  uint64_t drafted_rounds = 0;
  uint64_t draft_tokens = 0;
  uint64_t accepted_tokens = 0;
  uint64_t tokens = 0;  // that the text got in its rounds
  uint64_t reasons[kDrafterReasons] = {};

  DrafterCounts& operator+=(const DrafterCounts& more);
};

}  // namespace tandem::orchestrator
