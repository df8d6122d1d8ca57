// How many rows a product has on a card (StepOptions::tile), by what passes of one tile were
// measured to take there.
//
// A pass takes at least as long as reading the weights does. Up to some number of rows arithmetic
// hides behind that; up to there a larger tile costs a round nothing, and makes prompts cheaper.
//
// Thread safety: pure functions.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace tandem::torch {

// Those that are measured, ascending.
inline constexpr int kTiles[] = {64, 128, 192, 256};

struct TileCost {
  int tile = 0;
  absl::Duration took;  // a pass of one tile
};

// The largest tile whose pass takes at most a twentieth longer than the quickest. At least one.
int ChooseTile(absl::Span<const TileCost> costs);

// For the log: "64:3810,128:3822": microseconds by rows.
std::string TileCostsText(absl::Span<const TileCost> costs);

}  // namespace tandem::torch
