#include "torch/aten/decoder_step.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_int_mm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "torch/aten/guarded.h"
#include "torch/aten/int8.h"
#include "torch/aten/product_threads.h"
#include "torch/aten/upload.h"

namespace tandem::torch {
namespace {

// All of a card's passes run on one stream that is not its default one, which cannot be captured.
std::optional<c10::Stream> NewStream(at::Device device) {
  if (device.is_cpu()) return std::nullopt;
  return c10::impl::VirtualGuardImpl(device.type()).getNewStream(device);
}

InputSizes SizesOf(const StepOptions& options, const model::DecoderSpec& spec) {
  InputSizes sizes;
  sizes.tile = options.tile;
  sizes.max_rows = options.max_rows;
  sizes.max_pages = (spec.context_length + kPageTokens - 1) / kPageTokens;
  sizes.scratch_page = static_cast<uint32_t>(options.pages);
  return sizes;
}

// How the calling thread computes.
class Scope {
 public:
  explicit Scope(const std::optional<c10::Stream>& stream) {
    if (stream.has_value()) {
      guard_.emplace(*stream);
    } else if (at::get_num_threads() != 1) {
      at::set_num_threads(1);
    }
  }

 private:
  const c10::InferenceMode inference_;
  std::optional<c10::StreamGuard> guard_;
};

}  // namespace

DecoderStep::DecoderStep(const StepOptions& options, const model::DecoderSpec& spec,
                         std::shared_ptr<const LoadedWeights> weights, at::Device device,
                         std::string device_name)
    : emptier_{device},
      options_(options),
      spec_(spec),
      device_(device),
      type_(ScalarTypeOf(options.type)),
      loaded_(std::move(weights)),
      weights_(loaded_->weights),
      stream_(NewStream(device)),
      sizes_(SizesOf(options, spec)),
      backend_(
          device, stream_,
          [this](const PassShape& shape, const at::Tensor& inputs) { Compute(shape, inputs); }),
      graphs_(backend_, sizes_) {
  c10::InferenceMode inference;
  info_.device = std::move(device_name);
  info_.tile = options.tile;
  info_.weight_bytes = weights_.bytes;
  if (stream_.has_value()) info_.stream = stream_->native_handle();
  if (!spec.learned_positions) {
    ropes_.emplace_back(options.rope_frequencies, spec.rope.attention_factor, spec.context_length,
                        device);
    if (spec.sliding_rope.has_value()) {
      ropes_.emplace_back(options.sliding_rope_frequencies, spec.sliding_rope->attention_factor,
                          spec.context_length, device);
    }
  }
  const std::vector<int64_t> shape = {2,           spec.layers,   options.pages + 1,
                                      kPageTokens, spec.kv_heads, spec.head_size};
  const auto where = at::TensorOptions().dtype(type_).device(device);
  // A kernel that masks what a row does not see still multiplies it, so there must be no NaN. On a
  // processor only what is seen is read, and memory that is not written costs nothing.
  const at::Tensor cache = device.is_cpu() ? at::empty(shape, where) : at::zeros(shape, where);
  keys_ = cache[0];
  values_ = cache[1];
  cells_ = cache.view({int64_t{2} * spec.layers, -1, spec.kv_size()});
  const double scale = spec.attention_scale == 0.0
                           ? 1.0 / std::sqrt(static_cast<double>(spec.head_size))
                           : spec.attention_scale;
  const HeadSizes sizes{spec.heads, spec.kv_heads, spec.head_size, scale};
  if (fused()) {
    const bool mma = options.attention == Attention::kMma;
    attender_ = MakeSpansAttender(sizes, device, sizes_, mma, *options_.kernels, stream());
  } else {
    attender_ = MakeGatherAttender(sizes, device);
  }
}

absl::Status DecoderStep::Prepare() {
  const Scope scope(stream_);
  // What was loaded lies on the default stream.
  if (stream_.has_value()) {
    absl::Status loaded = Guarded("load the model", [&] {
      const c10::impl::VirtualGuardImpl guard(device_.type());
      guard.synchronizeStream(guard.getDefaultStream(device_));
    });
    if (!loaded.ok()) return loaded;
  }
  return graphs_.Prepare(options_.graphs);
}

absl::Status DecoderStep::Run(const PassRows& pass) {
  const Scope scope(stream_);
  logits_rows_ = static_cast<int64_t>(pass.logits_rows.size());
  bool replays = false;
  const absl::Status begun = Guarded("begin a pass", [&] { replays = attender_->Begin(pass); });
  return begun.ok() ? graphs_.Run(pass, replays) : begun;
}

void DecoderStep::Compute(const PassShape& shape, const at::Tensor& inputs) {
  const InputLayout layout = LayoutOf(shape);
  const auto array = [&inputs](size_t first, int64_t count, at::ScalarType type) {
    const int64_t bytes = count * static_cast<int64_t>(c10::elementSize(type));
    const auto at = static_cast<int64_t>(first);
    return inputs.slice(0, at, at + bytes).view(type);
  };
  const int64_t rows = shape.rows;
  Begin(array(layout.tokens, rows, at::kLong), array(layout.positions, rows, at::kLong),
        array(layout.cells, rows, at::kLong));
  for (size_t layer = 0; layer < weights_.layers.size(); ++layer) {
    // Rows see keys and values of rows in later tiles too: all are written first.
    for (Tile& tile : tiles_) Project(tile, layer);
    for (Tile& tile : tiles_) {
      const at::Tensor attended = attender_->Attend(
          CacheOf(layer), spec_.window(static_cast<int>(layer)), tile.first_row, tile.queries);
      Finish(tile, weights_.layers[layer], attended);
    }
  }
  if (shape.logits_rows > 0) Output(array(layout.wanted, shape.logits_rows, at::kLong));
}

void DecoderStep::Begin(const at::Tensor& tokens, const at::Tensor& positions,
                        const at::Tensor& cells) {
  tiles_.clear();
  const int64_t rows = ProductRows(tokens.size(0));
  for (int64_t first = 0; first < tokens.size(0); first += rows) {
    const auto of_tile = [&](const at::Tensor& all) { return all.slice(0, first, first + rows); };
    Tile tile;
    tile.first_row = first;
    tile.cells = of_tile(cells);
    const at::Tensor places = of_tile(positions);
    if (!fused()) {
      for (const RopeTable& rope : ropes_) tile.rotations.push_back(rope.At(places));
    }
    tile.x = Embed(of_tile(tokens), places);
    tiles_.push_back(std::move(tile));
  }
}

at::Tensor DecoderStep::Embed(const at::Tensor& tokens, const at::Tensor& positions) const {
  at::Tensor x = weights_.Embedded(tokens);
  if (spec_.embedding_scale != 1.0) x.mul_(spec_.embedding_scale);
  if (spec_.learned_positions) {
    x.add_(weights_.positions.index_select(0, positions.add(spec_.position_offset)));
  }
  return x;
}

// Queries of a layer, and keys and values into the cache.
void DecoderStep::Project(Tile& tile, size_t layer) {
  const LayerWeights& weights = weights_.layers[layer];
  const at::Tensor x = NormedSum(tile, weights.attention_norm);
  if (fused()) {
    HeadWork work = {weights.qkv.bias,      weights.q_norm.weight,
                     weights.k_norm.weight, spec_.qk_norm == model::QkNorm::kWidth,
                     spec_.norm.epsilon,    {}};
    const model::RopeSpec* rope = spec_.layer_rope(static_cast<int>(layer));
    if (rope != nullptr) work.all = ropes_[rope == &spec_.rope ? 0 : 1].all();
    tile.queries =
        attender_->RotateAndWrite(CacheOf(layer), tile.first_row, Raw(x, weights.qkv), work);
    return;
  }
  const at::Tensor qkv = Multiply(x, weights.qkv);
  const int64_t q = spec_.q_size();
  const int64_t kv = spec_.kv_size();
  tile.queries = Prepared(Heads(qkv, 0, q), weights.q_norm, tile, layer).to(type_);
  const LayerCache cache = CacheOf(layer);
  auto write = [&](const at::Tensor& all, const at::Tensor& rows_of_tile) {
    all.view({-1, spec_.kv_heads, spec_.head_size})
        .index_copy_(0, tile.cells, rows_of_tile.to(type_));
  };
  write(cache.keys, Prepared(Heads(qkv, q, kv), weights.k_norm, tile, layer));
  write(cache.values, Heads(qkv, q + kv, kv));
}

at::Tensor DecoderStep::Heads(const at::Tensor& qkv, int64_t first, int64_t size) const {
  return qkv.slice(1, first, first + size).reshape({qkv.size(0), -1, spec_.head_size});
}

at::Tensor DecoderStep::Prepared(const at::Tensor& heads, const NormWeights& norm, const Tile& tile,
                                 size_t layer) const {
  at::Tensor x = heads;
  if (spec_.qk_norm == model::QkNorm::kHead) {
    x = RmsNorm(x, norm.weight, spec_.norm.epsilon);
  } else if (spec_.qk_norm == model::QkNorm::kWidth) {
    x = RmsNorm(x.flatten(1), norm.weight, spec_.norm.epsilon).view(heads.sizes());
  }
  const model::RopeSpec* rope = spec_.layer_rope(static_cast<int>(layer));
  if (rope == nullptr) return x;
  return Rotated(x, tile.rotations[rope == &spec_.rope ? 0 : 1]);
}

void DecoderStep::Finish(Tile& tile, const LayerWeights& weights, const at::Tensor& attended) {
  const at::Tensor attention = Branch(attended, weights.o);
  if (!spec_.parallel_residual) Add(tile, attention, weights.post_attention_norm);
  const at::Tensor mlp = Mlp(NormedSum(tile, weights.mlp_norm), weights);
  if (spec_.parallel_residual) Add(tile, attention, weights.post_attention_norm);
  Add(tile, mlp, weights.post_mlp_norm);
}

at::Tensor DecoderStep::Mlp(const at::Tensor& x, const LayerWeights& weights) const {
  const bool silu = spec_.activation == model::Activation::kSilu;
  if (fused() && spec_.gated_mlp && !weights.gate_up.bias.defined() &&
      (silu || spec_.activation == model::Activation::kGeluTanh)) {
    const auto kind = silu ? kernels::GateKind::kSilu : kernels::GateKind::kGeluTanh;
    const at::Tensor gated = Gated(*options_.kernels, stream(), kind, Raw(x, weights.gate_up));
    return Branch(gated, weights.down);
  }
  const at::Tensor inner = Multiply(x, weights.gate_up);
  if (!spec_.gated_mlp) return Branch(Activated(spec_.activation, inner), weights.down);
  const int64_t size = spec_.intermediate_size;
  const at::Tensor gate = inner.slice(1, 0, size).contiguous();
  const at::Tensor activated =
      Activated(spec_.activation, gate).mul_(inner.slice(1, size, 2 * size));
  return Branch(activated, weights.down);
}

void DecoderStep::Add(Tile& tile, const at::Tensor& branch, const NormWeights& post_norm) const {
  Sum(tile);
  tile.added = {branch, post_norm.weight, spec_.residual_scale};
  if (post_norm.weight.defined() && !fused_norms()) {
    tile.added.branch = Normed(spec_.norm, branch, post_norm);
    tile.added.weight = at::Tensor();
  }
}

const at::Tensor& DecoderStep::Sum(Tile& tile) const {
  const Addend added = std::exchange(tile.added, {});
  if (!added.branch.defined()) return tile.x;
  at::Tensor branch = added.branch;
  if (added.weight.defined()) {
    branch = RmsNorm(branch.to(at::kFloat), added.weight, spec_.norm.epsilon);
  }
  tile.x.add_(added.scale == 1.0 ? branch : branch.to(at::kFloat).mul(added.scale));
  return tile.x;
}

at::Tensor DecoderStep::NormedSum(Tile& tile, const NormWeights& norm) const {
  const bool nothing = !norm.weight.defined() && !tile.added.branch.defined();
  if (!fused_norms() || nothing) return Normed(spec_.norm, Sum(tile), norm);
  if (tile.added.branch.defined() && tile.added.branch.scalar_type() != type_) Sum(tile);
  const Addend added = std::exchange(tile.added, {});
  return AddedAndNormed(*options_.kernels, stream(), tile.x, added, norm.weight, spec_.norm.epsilon,
                        type_);
}

// Logits lie at one place for all passes: a graph has their address. The first pass of all is the
// largest where there are graphs.
void DecoderStep::Output(const at::Tensor& wanted) {
  const int64_t rows = wanted.size(0);
  std::vector<at::Tensor> all;
  for (Tile& tile : tiles_) all.push_back(Sum(tile));
  const at::Tensor x = at::cat(all).index_select(0, wanted);
  if (!logits_.defined() || logits_.size(0) < rows) {
    logits_ = at::empty({rows, spec_.vocabulary_size},
                        at::TensorOptions().dtype(at::kFloat).device(device_));
  }
  const int64_t some = ProductRows(rows);
  for (int64_t first = 0; first < rows; first += some) {
    const at::Tensor normed =
        Normed(spec_.norm, x.slice(0, first, first + some), weights_.final_norm);
    const at::Tensor logits = logits_.slice(0, first, first + some);
    logits.copy_(Raw(normed, weights_.output));
    if (weights_.output.bias.defined()) logits.add_(weights_.output.bias);
    if (spec_.logit_scale != 1.0) logits.mul_(spec_.logit_scale);
  }
}

at::Tensor DecoderStep::Product(at::Tensor multiply(const at::Tensor&, const at::Tensor&),
                                const at::Tensor& x, const Linear& linear) const {
  const ProductThreads threads(device_, options_.threads);
  return multiply(x, linear.weight.t());
}

at::Tensor DecoderStep::Raw(const at::Tensor& x, const Linear& linear) const {
  if (linear.scales.defined()) {
    const at::Tensor numbers = x.to(at::kFloat);
    if (!fused()) {
      const Int8Rows rows = Quantized(numbers);
      return Scaled(Product(at::_int_mm, rows.integers, linear), rows.scales, linear.scales);
    }
    const Int8Rows rows = QuantizedRows(*options_.kernels, stream(), numbers.contiguous());
    return ScaledSums(*options_.kernels, stream(), Product(at::_int_mm, rows.integers, linear),
                      rows.scales, linear.scales);
  }
  return Product(at::mm, x.to(linear.weight.scalar_type()), linear).to(type_);
}

at::Tensor DecoderStep::Branch(const at::Tensor& x, const Linear& linear) const {
  const bool plain = !linear.bias.defined() && !spec_.parallel_residual;
  return fused_norms() && plain ? Raw(x, linear) : Multiply(x, linear);
}

at::Tensor DecoderStep::Multiply(const at::Tensor& x, const Linear& linear) const {
  const at::Tensor product = Raw(x, linear).to(at::kFloat);
  return linear.bias.defined() ? product.add_(linear.bias) : product;
}

DeviceLogits DecoderStep::logits() const {
  if (logits_rows_ == 0) return {};
  return {logits_.const_data_ptr<float>(), logits_.stride(0)};
}

absl::Status DecoderStep::ReadLogits(float* logits) {
  if (logits_rows_ == 0) return absl::OkStatus();
  return Guarded("read logits", [&] {
    const Scope scope(stream_);
    const at::Tensor host = logits_.slice(0, 0, logits_rows_).cpu();
    std::memcpy(logits, host.const_data_ptr(), host.nbytes());
  });
}

absl::Status DecoderStep::MoveCells(absl::Span<const CellMove> moves) {
  return Guarded("move cells", [&] {
    const Scope scope(stream_);
    std::vector<int64_t> from, to;
    for (const CellMove& move : moves) {
      from.push_back(move.from);
      to.push_back(move.to);
    }
    cells_.index_copy_(1, Uploaded(to, device_), cells_.index_select(1, Uploaded(from, device_)));
  });
}

LayerCache DecoderStep::CacheOf(size_t layer) const {
  const int64_t i = static_cast<int64_t>(layer);
  return {keys_.select(0, i), values_.select(0, i)};
}

}  // namespace tandem::torch
