// A pair of table models: a target whose p can be enumerated, and a draft that is the target with
// some noise.
#pragma once

#include <cstdint>

#include "tests/integration/cluster.h"
#include "tests/integration/distribution.h"
#include "tests/support/table_model.h"

namespace tandem::testing {

// Both depend on the last two tokens.
struct TablePair {
  uint32_t vocabulary = 5;
  int top_m = 3;     // of the draft's q
  double noise = 1;  // of the draft
};

TableModelOptions TargetTable(const TablePair& pair);
TableModelOptions DraftTable(const TablePair& pair);

// A cluster on the pair, on channels without sockets, whose rounds wait for their blocks.
ClusterOptions TableOptions(const TablePair& pair);

// The target's p, after a prompt of so many tokens. Not thread-safe.
TargetDistribution TableDistribution(const TablePair& pair,
                                     const sampling::SamplingParameters& sampling,
                                     size_t prompt_tokens);

// A cluster of these options and its texts. CHECKs that it gave everything back at the end.
Judgement MeasureTable(const TablePair& pair, ClusterOptions options, const TextsOptions& texts);

}  // namespace tandem::testing
