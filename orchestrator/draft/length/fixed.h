// A policy with the same length in every round; 0 = the target alone.
#pragma once

#include <cstdint>

#include "orchestrator/draft/length/policy.h"

namespace tandem::orchestrator {

class FixedLength final : public LengthPolicy {
 public:
  explicit FixedLength(uint32_t tokens) : tokens_(tokens) {}

  uint32_t Next() const override { return tokens_; }
  void Observe(uint32_t /*draft_tokens*/, uint32_t /*accepted_tokens*/) override {}

 private:
  const uint32_t tokens_;
};

}  // namespace tandem::orchestrator
