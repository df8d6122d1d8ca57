// Decides how many draft tokens a round asks for. A policy sees counts and no tokens, and does no
// I/O. It belongs to one request. Not thread-safe.
#pragma once

#include <cstdint>

namespace tandem::orchestrator {

inline constexpr uint32_t kMaxDraftTokens = 16;  // candidates a round, under every policy

class LengthPolicy {
 public:
  virtual ~LengthPolicy() = default;

  // Returns 0 to kMaxDraftTokens. 0 means that the round is better off without a draft.
  virtual uint32_t Next() const = 0;

  // A round with a draft ended: `accepted_tokens` of `draft_tokens` (at least one) were accepted.
  virtual void Observe(uint32_t draft_tokens, uint32_t accepted_tokens) = 0;
};

}  // namespace tandem::orchestrator
