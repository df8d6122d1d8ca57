#include "orchestrator/draft/length/confident_estimate.h"

#include <cstdlib>

#include "common/base/check.h"

namespace tandem::orchestrator {

void ConfidentEstimate::Observe(uint32_t shape, uint32_t came, uint32_t accepted) {
  TANDEM_CHECK(IsConfident(shape));
  sums_[shape - kFirstConfident].Add(came, accepted);
}

bool ConfidentEstimate::empty() const {
  for (const ShapeSums& sums : sums_) {
    if (sums.rounds > 0) return false;
  }
  return true;
}

template <typename Value>
double ConfidentEstimate::Mean(uint32_t shape, double before, Value value) const {
  TANDEM_CHECK(IsConfident(shape));
  const int at = static_cast<int>(shape - kFirstConfident);
  int nearest = static_cast<int>(sums_.size());
  double expected = before;
  for (int i = 0; i < static_cast<int>(sums_.size()); ++i) {
    if (i == at || sums_[i].rounds == 0 || std::abs(i - at) >= nearest) continue;
    nearest = std::abs(i - at);
    expected = value(sums_[i]) / sums_[i].rounds;
  }
  return (kPriorWeight * expected + value(sums_[at])) / (kPriorWeight + sums_[at].rounds);
}

double ConfidentEstimate::Tokens(uint32_t shape, double before) const {
  return Mean(shape, before, [](const ShapeSums& sums) { return sums.tokens(); });
}

double ConfidentEstimate::TokensError(uint32_t shape) const {
  TANDEM_CHECK(IsConfident(shape));
  return sums_[shape - kFirstConfident].TokensError(kPriorWeight);
}

double ConfidentEstimate::Candidates(uint32_t shape, double before) const {
  return Mean(shape, before, [](const ShapeSums& sums) { return sums.came; });
}

}  // namespace tandem::orchestrator
