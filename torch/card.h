// What a card's measurements decide: how many rows a product has there (StepOptions::tile), and how
// large the cache is made where nobody says it.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace tandem::torch {

// A pass takes at least as long as reading the weights does. Up to some number of rows arithmetic
// hides behind that; up to there a larger tile costs a round nothing, and makes prompts cheaper.
//
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

struct CardRoom {
  int64_t free_bytes = 0;    // of the card, before anything of the model is there
  double utilization = 0.9;  // the share of these that may be used
  int64_t weight_bytes = 0;
  int max_rows = 0;        // of a pass
  int64_t pass_bytes = 0;  // activations and logits of such a pass, and the judge's room
  int64_t page_bytes = 0;  // keys and values of one page
};

// LibTorch's context, its kernels, and the workspaces of its libraries.
inline constexpr int64_t kLibraryBytes = int64_t{1} << 30;

// floor((free · utilization - weights - a pass - kLibraryBytes) / page), less the one scratch page.
// RESOURCE_EXHAUSTED: `min_pages`, one sequence of the model's context length, do not fit; the
// message has each part.
absl::StatusOr<int> PagesThatFit(const CardRoom& room, int min_pages);

}  // namespace tandem::torch
