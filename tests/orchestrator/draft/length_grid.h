// The grid of settings on which the policy "auto" is held against the better of no draft and the
// best fixed length (length_simulation.h), and what came of each.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/orchestrator/draft/length_simulation.h"

namespace tandem::orchestrator {

struct GridCell {
  std::string name;  // all its values
  SimulatedSetting setting;
};

// Curves of the demo target, of a large bf16 target on a processor and of one whose rows cost next
// to nothing (bench/README.md) x alpha x the draft's time x round trip to the draft x sequences:
// 768 for one orchestrator, and those with a sequence for each where there are more.
std::vector<GridCell> LengthGrid(uint32_t streams);

// Policies for one cell. Those of one orchestrator may share what they learn.
using MakeForCell = std::function<MakeLength(const SimulatedSetting& setting)>;
MakeLength Auto(const SimulatedSetting& setting);

struct GridSummary {
  double mean = 0, worst = 1;  // of the policy's speed to the best
  double worst_to_off = 1;     // to that without a draft
  int below = 0;               // cells below 0.98 of the best
  std::string worst_cell, worst_to_off_cell;
};

// A policy learns for 200 n + 1500 rounds of n sequences, and then 200 n + 3000 are measured: one
// run. What is seen is printed to `out`, if it is not null.
GridSummary MeasureAll(const std::vector<GridCell>& cells, const MakeForCell& make,
                       std::ostream* out = nullptr);

}  // namespace tandem::orchestrator
