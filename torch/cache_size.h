// How large the cache of a card is made where nobody says it.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace tandem::torch {

struct CardRoom {
  int64_t free_bytes = 0;    // of the card, before anything of the model is there
  double utilization = 0.9;  // the share of these that may be used
  int64_t weight_bytes = 0;
  int64_t pass_bytes = 0;  // activations and logits of a pass, and the judge's room
  int64_t page_bytes = 0;  // keys and values of one page
};

// LibTorch's context, its kernels, and the workspaces of its libraries.
inline constexpr int64_t kLibraryBytes = int64_t{1} << 30;

// floor((free · utilization - weights - a pass - kLibraryBytes) / page), less the one scratch page.
// RESOURCE_EXHAUSTED: `min_pages`, one sequence of the model's context length, do not fit; the
// message has each part.
absl::StatusOr<int> PagesThatFit(const CardRoom& room, int min_pages);

}  // namespace tandem::torch
