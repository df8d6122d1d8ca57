// Asks for two more after a block that was accepted whole, and for one less after any other. This
// is the schedule "heuristic" of assisted generation in Hugging Face transformers (Gante 2023).
#pragma once

#include <algorithm>
#include <cstdint>

#include "orchestrator/draft/length/policy.h"

namespace tandem::orchestrator {

class HeuristicLength final : public LengthPolicy {
 public:
  static constexpr uint32_t kFirst = 4;

  bool WantsDraft() const override { return true; }
  LengthChoice Next(const LengthInputs& /*inputs*/) override { return {tokens_}; }

  // A block may be shorter than was asked for: the text has no more room, or the drafter has little
  // to propose. If such a block was accepted whole, that is no reason to ask for less.
  void Observe(const RoundRecord& round) override {
    if (round.cause.has_value()) return;
    if (round.accepted_tokens >= round.length()) {
      tokens_ = std::min(tokens_ + 2, kMaxDraftTokens);
    } else {
      tokens_ = std::max(tokens_ - 1, 1u);
    }
  }

 private:
  uint32_t tokens_ = kFirst;  // 1 to kMaxDraftTokens
};

}  // namespace tandem::orchestrator
