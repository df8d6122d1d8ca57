// Attention of a pass's rows to the cells that they see.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "torch/aten/elementwise.h"
#include "torch/graphs/pass_inputs.h"
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

// What happens to queries and keys, in this order; undefined: nothing does.
struct HeadWork {
  at::Tensor bias;             // of a row of the product, fp32
  at::Tensor q_norm, k_norm;   // weights of RMS norms, fp32: [head_size], of each head,
  bool norm_together = false;  // or [heads · head_size], of all heads together
  double epsilon = 0;
  Rotation all;  // of all positions: [context, rotary_size / 2]
};

// A row's output depends on what it sees alone: each row is computed by itself, or by a kernel that
// sums in an order which follows positions.
class Attender {
 public:
  virtual ~Attender() = default;

  // The pass that comes next, which outlives its layers. Whether what its layers launch is the same
  // for all passes of its shape, so that a graph of another one computes it.
  virtual bool Begin(const PassRows& pass) = 0;

  // Of whole tiles from row `first_row` on: `queries` [rows, heads, head_size], rotated; the result
  // is [rows, heads · head_size]. Of what a row sees, the last `window` cells count; 0: all. Rows
  // that fill up give anything finite.
  virtual at::Tensor Attend(const LayerCache& layer, int window, int64_t first_row,
                            const at::Tensor& queries) = 0;

  // Of kSpans: norms, rotation and the write to the cache in one kernel. `qkv` is the product of
  // whole tiles from row `first_row` on, [rows, heads and then twice kv_heads of head_size], of the
  // cache's type. Gives the queries.
  virtual at::Tensor RotateAndWrite(const LayerCache& /*layer*/, int64_t /*first_row*/,
                                    const at::Tensor& /*qkv*/, const HeadWork& /*work*/) {
    return at::Tensor();
  }
};

// Attention::kGather on any device: it looks at the pass itself, so no graph has it.
// Attention::kSpans, or kMma with `mma`, on any device; `kernels` outlive their attender, and run
// on `stream` (interface.h), which is the calling thread's current one.
std::unique_ptr<Attender> MakeGatherAttender(const HeadSizes& sizes, at::Device device);
std::unique_ptr<Attender> MakeSpansAttender(const HeadSizes& sizes, at::Device device,
                                            const InputSizes& inputs, bool mma,
                                            kernels::PassKernels& kernels, void* stream);

}  // namespace tandem::torch
