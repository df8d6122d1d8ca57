// How many candidates a round should ask for. A policy sees counts and no tokens, does no I/O, and
// belongs to one request; not thread-safe.
#pragma once

#include <cstdint>

namespace tandem::orchestrator {

inline constexpr uint32_t kMaxDraftTokens = 16;  // candidates a round, under every policy

class LengthPolicy {
 public:
  virtual ~LengthPolicy() = default;

  // 0 to kMaxDraftTokens. 0 is a legal answer: the round is better off without a draft.
  virtual uint32_t Next() const = 0;

  // A drafted round ended: `accepted_tokens` of `draft_tokens` (at least one) stood.
  virtual void Observe(uint32_t draft_tokens, uint32_t accepted_tokens) = 0;
};

}  // namespace tandem::orchestrator
