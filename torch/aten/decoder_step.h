// The step of a decoder in ATen's operations, the same ones on a processor and on a CUDA device.
//
// Rows go through it in tiles of a constant number, the last one filled up with zeros. So each
// operation has one shape for as long as the process runs, LibTorch takes one algorithm for it, and
// a row's sums do not depend on how many rows there are or what they hold. That they do not depend
// on a row's place in its tile either is a property of the algorithms; the self-check measures it
// (docs/gpu.md).
//
// What differs by device: the attender, and `device`.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "model/spec/decoder_spec.h"
#include "torch/aten/attend.h"
#include "torch/aten/elementwise.h"
#include "torch/aten/weights.h"
#include "torch/library/interface.h"

namespace tandem::torch {

// Thread safety and errors: as Step says. LibTorch's exceptions do not leave it.
class DecoderStep final : public Step {
 public:
  // `options` are checked, and their tile is set. Throws what LibTorch throws.
  DecoderStep(const StepOptions& options, const model::DecoderSpec& spec,
              const model::DecoderTensors& tensors, at::Device device, std::string device_name);

  const StepInfo& info() const override { return info_; }
  absl::Status Run(const PassRows& pass) override;
  DeviceLogits logits() const override;
  absl::Status ReadLogits(float* logits) override;
  absl::Status CopyCell(const uint32_t* pages, int from, int to) override;

 private:
  // Of the rows of one tile.
  struct Tile {
    at::Tensor cells;                 // [tile] in the whole cache
    std::vector<Rotation> rotations;  // of ropes_
    at::Tensor x;                     // [tile, hidden], fp32
    at::Tensor queries;               // [tile, heads, head_size]
  };

  void Compute(const PassRows& pass);
  void Begin(const PassRows& pass);
  void Project(Tile& tile, size_t layer);
  void Finish(Tile& tile, const LayerWeights& weights, const at::Tensor& attended);
  void Output(const PassRows& pass);

  // All shapes are those of one tile, and all numbers fp32.
  at::Tensor Embed(const at::Tensor& tokens, const at::Tensor& positions) const;
  // Some columns of q, k and v as heads [tile, …, head_size], q or k normed and rotated.
  at::Tensor Heads(const at::Tensor& qkv, int64_t first, int64_t size) const;
  at::Tensor Prepared(const at::Tensor& heads, const NormWeights& norm, const Tile& tile,
                      size_t layer) const;
  at::Tensor Mlp(const at::Tensor& x, const LayerWeights& weights) const;
  // x += branch, as the specification says.
  void Add(at::Tensor& x, const at::Tensor& branch, const NormWeights& post_norm) const;
  at::Tensor Multiply(const at::Tensor& x, const Linear& linear) const;
  // x · weightᵀ by one of ATen's products.
  at::Tensor Product(at::Tensor multiply(const at::Tensor&, const at::Tensor&), const at::Tensor& x,
                     const Linear& linear) const;

  at::Tensor Upload(const std::vector<int64_t>& values) const;
  LayerCache CacheOf(size_t layer) const;

  const StepOptions options_;
  const model::DecoderSpec spec_;
  const at::Device device_;
  const at::ScalarType type_;
  const Weights weights_;
  StepInfo info_;
  std::vector<RopeTable> ropes_;  // of DecoderSpec::rope and, where there is one, sliding_rope
  at::Tensor keys_;    // [layers, pages and a scratch page, kPageTokens, kv_heads, head_size]
  at::Tensor values_;  // as keys_
  std::unique_ptr<Attender> attender_;

  // Of the pass under way.
  std::vector<Tile> tiles_;
  at::Tensor logits_;  // [tiles · tile, vocabulary], fp32
  int64_t logits_rows_ = 0;
};

}  // namespace tandem::torch
