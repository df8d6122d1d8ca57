// How much of a block stands on average, computed from its verdict alone. So rules can be compared
// on the same blocks without the noise of sampling.
#pragma once

#include <cstddef>

#include "absl/types/span.h"
#include "common/acceptance/rule.h"

namespace tandem::acceptance {

// E[Decide(rule, entries, u).accepted] over uniforms u, from 0 to K. `entries`: as ValidateEntries
// lets them through.
//   block       sum over i from 1 of 1 - product over j >= i of (1 - h_j)
//   the others  sum over i from 1 of product over j <= i of a_j
inline double ExpectedAccepted(Rule rule, absl::Span<const Entry> entries) {
  double expected = 0;
  if (rule == Rule::kBlock) {
    double none_later = 1;
    for (size_t i = entries.size(); --i > 0;) {
      none_later *= 1 - entries[i].accept_probability;
      expected += 1 - none_later;
    }
    return expected;
  }
  double all = 1;
  for (size_t i = 1; i < entries.size(); ++i) {
    all *= entries[i].accept_probability;
    expected += all;
  }
  return expected;
}

}  // namespace tandem::acceptance
