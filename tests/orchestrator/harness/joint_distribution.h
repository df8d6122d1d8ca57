// The joint distribution of a table model's first tokens, by enumeration.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/support/chi_square.h"
#include "tests/support/table_model.h"

namespace tandem::orchestrator {

// Of the first `tokens` tokens after `prompt`, in the order of the numbers that they are to the
// base `vocabulary`.
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

// Compares the first tokens of many texts with their joint distribution. One model, one prompt.
class JointCounts {
 public:
  JointCounts(uint32_t vocabulary, uint32_t tokens)
      : vocabulary_(vocabulary),
        tokens_(tokens),
        counts_(static_cast<size_t>(std::pow(vocabulary, tokens))) {}

  // `output` has `tokens` tokens or more.
  void Add(const testing::TableModel& model, const std::vector<uint32_t>& prompt,
           const std::vector<uint32_t>& output) {
    if (joint_.empty()) joint_ = JointDistribution(model, prompt, vocabulary_, tokens_);
    size_t cell = 0;
    for (uint32_t t = 0; t < tokens_; ++t) cell = cell * vocabulary_ + output[t];
    ++counts_[cell];
  }
  testing::ChiSquare Fit() const { return testing::GoodnessOfFit(joint_, counts_); }

 private:
  const uint32_t vocabulary_, tokens_;
  std::vector<int64_t> counts_;
  std::vector<double> joint_;
};

}  // namespace tandem::orchestrator
