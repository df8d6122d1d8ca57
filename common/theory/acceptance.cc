#include "common/theory/acceptance.h"

namespace tandem::theory {

double EstimateAlpha(uint64_t accepted, uint64_t rejected_rounds) {
  const double tested = static_cast<double>(accepted) + static_cast<double>(rejected_rounds);
  return tested == 0 ? 0 : static_cast<double>(accepted) / tested;
}

}  // namespace tandem::theory
