// Keys and values of all sequences on a card: a pool of pages of 256 cells, and which of them a row
// sees. The same words as in model/: the token at position i lies in cell i, but in a tree.
//
// Thread safety: plain values.
#pragma once

#include "common/base/host_device.h"

namespace tandem::kernels {

inline constexpr uint32_t kPageCells = 256;
inline constexpr uint32_t kMaxHeadSize = 256;

// One layer in the pool: where the first key lies, and how many words further on each next one
// does. A head's key, and its value, are head_size words side by side.
struct CacheLayer {
  uint64_t offset = 0;
  uint64_t page_words = 0;   // between pages
  uint64_t value_words = 0;  // from a key to its value
  uint32_t cell_words = 0;
  uint32_t head_words = 0;
  uint32_t kv_heads = 0;
  uint32_t head_size = 0;

  // Where the key of a cell begins. The value is value_words behind it.
  TANDEM_HOST_DEVICE_INLINE uint64_t KeyOf(uint32_t page, uint32_t cell, uint32_t kv_head) const {
    return offset + page * page_words + uint64_t{cell % kPageCells} * cell_words +
           uint64_t{kv_head} * head_words;
  }
};

// A row of a pass. Lists are in arrays of the pass: page cell / kPageCells of the sequence is
// pages[first_page + cell / kPageCells]. What a row attends to is computed in partials
// (attention.h), which are numbered through all rows of the pass.
struct CacheRow {
  uint32_t first_page = 0;
  uint32_t position = 0;  // of its token; it sees the positions 0 to `position`
  uint32_t cell = 0;      // of its token
  // Positions below `straight` lie in cells of their own numbers, the others in
  // rest[first_rest], rest[first_rest + 1], …
  uint32_t straight = 0;
  uint32_t first_rest = 0;
  uint32_t first_partial = 0;
  uint32_t partials = 0;  // 0: a row that fills up; nobody reads its result
};

// The host's compiler and NVRTC lay them out alike.
static_assert(sizeof(CacheLayer) == 40 && sizeof(CacheRow) == 28);

}  // namespace tandem::kernels
