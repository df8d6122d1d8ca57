// Attention of a pass's rows to the cells that they see.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "torch/library/interface.h"

namespace tandem::torch {

// Sizes of heads, and what q·k is multiplied by.
struct HeadSizes {
  int heads = 0;
  int kv_heads = 0;
  int head_size = 0;
  double scale = 1.0;
};

// One layer's keys and values of all sequences: [pages, kPageTokens, kv_heads, head_size].
struct LayerCache {
  at::Tensor keys;
  at::Tensor values;
};

// A row's output depends on what it sees alone: each row is computed by itself, or by a kernel that
// sums in an order which follows positions.
class Attender {
 public:
  virtual ~Attender() = default;

  // The pass that comes next: rows in tiles of `tile`, the last one filled up. The pass outlives
  // its layers.
  virtual void Begin(const PassRows& pass, int tile) = 0;

  // Of the rows of one tile: `queries` [tile, heads, head_size], rotated; the result [tile, heads ·
  // head_size] is of their type. Of what a row sees, the last `window` cells count; 0: all. Rows
  // that fill up give anything finite.
  virtual at::Tensor Attend(const LayerCache& layer, int window, int tile_index,
                            const at::Tensor& queries) = 0;
};

// Attention::kGather on any device, and Attention::kFlash. `scratch_page`: a page that no sequence
// has. `max_pages`: of the longest sequence.
std::unique_ptr<Attender> MakeGatherAttender(const HeadSizes& sizes, at::Device device);
std::unique_ptr<Attender> MakeFlashAttender(const HeadSizes& sizes, at::Device device,
                                            int scratch_page, int max_pages);

// As Library::flash_schema and Library::has_paged_flash.
const char* FlashSchema();
bool HasPagedFlash();

}  // namespace tandem::torch
