// The joint distribution of a table model's first tokens, by enumeration.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/support/table_model.h"

namespace tandem::orchestrator {

// Of the first `tokens` tokens after `prompt`, in the order of the numbers that they are to the base
// `vocabulary`.
inline std::vector<double> JointDistribution(const testing::TableModel& model,
                                             const std::vector<uint32_t>& prompt,
                                             uint32_t vocabulary, uint32_t tokens) {
  std::vector<double> joint;
  std::vector<uint32_t> context = prompt;
  const auto walk = [&](const auto& self, double chance) -> void {
    if (context.size() == prompt.size() + tokens) return joint.push_back(chance);
    const std::vector<float> logits = model.LogitsAfter(context);
    double sum = 0;
    for (float logit : logits) sum += std::exp(double{logit});
    for (uint32_t token = 0; token < vocabulary; ++token) {
      context.push_back(token);
      self(self, chance * std::exp(double{logits[token]}) / sum);
      context.pop_back();
    }
  };
  walk(walk, 1);
  return joint;
}

}  // namespace tandem::orchestrator
