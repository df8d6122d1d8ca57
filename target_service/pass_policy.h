// Which of the waiting work goes into the next pass. A policy alone: no model, no time, no state, so that
// another one can take its place.
//
// This one is first come, first served in two classes. Work that is short (a round, a short prompt)
// goes whole; long prompts go in chunks, and take a bounded share of the rows while short work waits, so
// that a long prompt does not hold up everybody's rounds, nor rounds a prompt.
//
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

namespace tandem::target_service {

// What is left of one Step.
struct WaitingRows {
  int prefill = 0;  // rows without logits: may be cut anywhere
  int verify = 0;   // rows with logits: all in one pass, with or after the last prefill row

  int total() const { return prefill + verify; }
};

struct PassLimits {
  int most_rows = 512;     // of one pass; at least any `verify`
  int prefill_rows = 128;  // of long prompts, while short work waits
  int short_rows = 34;     // work of at most so many rows is short
};

struct Grant {
  size_t index = 0;  // into the waiting work
  int rows = 0;      // at least 1; all of its rows, or prefill rows only
};

// `waiting`: in the order of arrival, each with at least one row. At least one grant when anything
// waits; at most limits.most_rows rows together.
std::vector<Grant> FormPass(absl::Span<const WaitingRows> waiting, const PassLimits& limits);

}  // namespace tandem::target_service
