// The grid of settings on which the policy "auto" is held against the better of no draft and the best
// fixed length (length_simulation.h), and what came of each.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/orchestrator/draft/length_simulation.h"

namespace tandem::orchestrator {

struct GridCell {
  std::string name;  // all its values
  SimulatedSetting setting;
};

// Curves of the demo target, of a large bf16 target on a processor and of one whose rows cost next to
// nothing (bench/README.md) x alpha x the draft's time x round trip to the draft x sequences: 768.
std::vector<GridCell> LengthGrid();

struct GridResult {
  std::string name;
  double off = 0;   // tokens a second without a draft
  double best = 0;  // of it and of the fixed lengths
  uint32_t best_length = 0;
  double tried = 0;   // of the policy, a mean of its runs
  double lowest = 0;  // of its runs
  double ratio() const { return tried / best; }
  std::string ToString() const;
};

// Policies for one cell. They may share what they learn.
using MakeForCell = std::function<MakeLength(uint32_t sequences)>;

// `windows`: how many times 200 n + 1500 rounds of n sequences the policy may learn, and then 200 n + 3000 are
// measured. Trials are bounded as a share of the time, so a short window may hold more than that share.
// `runs`: the policy's speed is the mean of so many runs, each from nothing on.
GridResult Measure(const GridCell& cell, const MakeForCell& make, uint32_t windows = 1,
                   uint32_t runs = 1);

}  // namespace tandem::orchestrator
