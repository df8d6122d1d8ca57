// A policy with the same length in every round; 0 = the target alone.
#pragma once

#include <cstdint>

#include "orchestrator/draft/length/policy.h"

namespace tandem::orchestrator {

class FixedLength final : public LengthPolicy {
 public:
  explicit FixedLength(uint32_t tokens) : tokens_(tokens) {}

  bool WantsDraft() const override { return tokens_ > 0; }
  LengthChoice Next(const LengthInputs& /*inputs*/) override { return {tokens_}; }
  void Observe(const RoundRecord& /*round*/) override {}

 private:
  const uint32_t tokens_;
};

}  // namespace tandem::orchestrator
