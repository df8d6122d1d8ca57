// The step of a decoder in ATen's operations, the same ones on a processor and on a CUDA device.
//
// Rows go through it in tiles of a constant number, the last one filled up with zeros. So each
// operation has one shape for as long as the process runs, LibTorch takes one algorithm for it, and
// a row's sums do not depend on how many rows there are or what they hold. That they do not depend
// on a row's place in its tile either is a property of the algorithms; the self-check measures it
// (docs/gpu.md). Where it has measured that they do not depend on the number of tiles, too, all
// rows go through it at once (StepOptions::whole_products).
//
// A pass is arrays of numbers and a shape (torch/graphs/pass_inputs.h), so that a graph of one pass
// computes all that have its shape.
//
// What differs by device: the attender, whether passes are graphs, the stream, and `device`.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/spec/decoder_spec.h"
#include "torch/aten/aten_graphs.h"
#include "torch/aten/attend.h"
#include "torch/aten/elementwise.h"
#include "torch/aten/fused.h"
#include "torch/aten/weights.h"
#include "torch/graphs/pass_graphs.h"
#include "torch/library/interface.h"

namespace tandem::torch {

// Thread safety and errors: as Step says. LibTorch's exceptions do not leave it.
class DecoderStep final : public Step {
 public:
  // `options` are checked, and their tile is set. Throws what LibTorch throws.
  DecoderStep(const StepOptions& options, const model::DecoderSpec& spec,
              std::shared_ptr<const LoadedWeights> weights, at::Device device,
              std::string device_name);

  // Before the first pass: captures graphs where the options ask for them. Errors are the device's.
  absl::Status Prepare();

  const StepInfo& info() const override { return info_; }
  absl::Status Run(const PassRows& pass) override;
  DeviceLogits logits() const override;
  absl::Status ReadLogits(float* logits) override;
  absl::Status MoveCells(absl::Span<const CellMove> moves) override;
  absl::Status DeviceStatus() override { return backend_.Synchronise(); }

 private:
  // Rows that products are computed of: one tile's, or all of a pass.
  struct Tile {
    int64_t first_row = 0;
    at::Tensor cells;                 // [rows] in the whole cache
    std::vector<Rotation> rotations;  // of ropes_; empty where kernels rotate
    at::Tensor x;                     // [rows, hidden], fp32
    Addend added;                     // is still to be added to x
    at::Tensor queries;               // [rows, heads, head_size]
  };

  // A pass of this shape, from its arrays.
  void Compute(const PassShape& shape, const at::Tensor& inputs);
  void Begin(const at::Tensor& tokens, const at::Tensor& positions, const at::Tensor& cells);
  void Project(Tile& tile, size_t layer);
  void Finish(Tile& tile, const LayerWeights& weights, const at::Tensor& attended);
  void Output(const at::Tensor& wanted);
  // Rows of each product of `rows` rows.
  int64_t ProductRows(int64_t rows) const { return options_.whole_products ? rows : options_.tile; }

  // All shapes have the rows of one product, and all numbers are fp32.
  at::Tensor Embed(const at::Tensor& tokens, const at::Tensor& positions) const;
  // Some columns of q, k and v as heads [rows, …, head_size], q or k normed and rotated.
  at::Tensor Heads(const at::Tensor& qkv, int64_t first, int64_t size) const;
  at::Tensor Prepared(const at::Tensor& heads, const NormWeights& norm, const Tile& tile,
                      size_t layer) const;
  at::Tensor Mlp(const at::Tensor& x, const LayerWeights& weights) const;
  // x += branch, as the specification says. The sum waits for the norm that follows.
  void Add(Tile& tile, const at::Tensor& branch, const NormWeights& post_norm) const;
  // Of x, with what was to be added to it.
  at::Tensor NormedSum(Tile& tile, const NormWeights& norm) const;
  const at::Tensor& Sum(Tile& tile) const;
  at::Tensor Multiply(const at::Tensor& x, const Linear& linear) const;
  // For our kernels: as type_, and without the bias.
  at::Tensor Raw(const at::Tensor& x, const Linear& linear) const;
  // One that is to be added to the residual: as Raw where our kernel adds it.
  at::Tensor Branch(const at::Tensor& x, const Linear& linear) const;
  // Our kernel norms.
  bool fused_norms() const { return fused() && spec_.norm.kind == model::NormSpec::Kind::kRms; }
  bool fused() const { return options_.attention != Attention::kGather; }
  void* stream() const { return info_.stream.value_or(nullptr); }  // of our kernels
  // x · weightᵀ by one of ATen's products.
  at::Tensor Product(at::Tensor multiply(const at::Tensor&, const at::Tensor&), const at::Tensor& x,
                     const Linear& linear) const;

  LayerCache CacheOf(size_t layer) const;

  const CacheEmptier emptier_;
  const StepOptions options_;
  const model::DecoderSpec spec_;
  const at::Device device_;
  const at::ScalarType type_;
  const std::shared_ptr<const LoadedWeights> loaded_;
  const Weights& weights_;
  StepInfo info_;
  std::vector<RopeTable> ropes_;  // of DecoderSpec::rope and, where there is one, sliding_rope
  at::Tensor keys_;    // [layers, pages and a scratch page, kPageTokens, kv_heads, head_size]
  at::Tensor values_;  // as keys_, behind them in one block
  at::Tensor cells_;   // both: [2 · layers, all cells, kv_size]
  std::unique_ptr<Attender> attender_;

  // A device's own stream; absent: a processor has none.
  std::optional<c10::Stream> stream_;

  // Of the pass under way.
  std::vector<Tile> tiles_;
  at::Tensor logits_;  // [the most there were, vocabulary], fp32
  int64_t logits_rows_ = 0;

  const InputSizes sizes_;
  AtenGraphs backend_;
  PassGraphs graphs_;
};

}  // namespace tandem::torch
