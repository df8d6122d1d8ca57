#include "torch/aten/decoder_step.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_int_mm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "torch/aten/int8.h"
#include "torch/aten/upload.h"

namespace tandem::torch {
namespace {

// Of what attends: where products are of whole numbers, all else is fp32.
at::ScalarType ScalarTypeOf(ComputeType type) {
  if (type == ComputeType::kBfloat16) return at::kBFloat16;
  if (type == ComputeType::kFloat16) return at::kHalf;
  return at::kFloat;
}

// Products of a processor run on several threads, all else on one: LibTorch cuts elementwise work
// at any place, and computes a vector's remainder by other functions than whole vectors. A row at
// such a cut would have other bits.
class ProductThreads {
 public:
  ProductThreads(at::Device device, int threads) : on_(device.is_cpu() && threads > 1) {
    if (on_) at::set_num_threads(threads);
  }
  ~ProductThreads() {
    if (on_) at::set_num_threads(1);
  }

 private:
  const bool on_;
};

template <typename Work>
absl::Status Guarded(const char* what, Work work) {
  try {
    work();
  } catch (const c10::Error& error) {
    return absl::InternalError(std::string("LibTorch failed to ") + what + ": " +
                               error.what_without_backtrace());
  } catch (const std::exception& error) {
    return absl::InternalError(std::string("LibTorch failed to ") + what + ": " + error.what());
  }
  return absl::OkStatus();
}

}  // namespace

DecoderStep::DecoderStep(const StepOptions& options, const model::DecoderSpec& spec,
                         const model::DecoderTensors& tensors, at::Device device,
                         std::string device_name)
    : options_(options),
      spec_(spec),
      device_(device),
      type_(ScalarTypeOf(options.type)),
      weights_(spec, tensors, device,
               options.type == ComputeType::kInt8 ? at::kChar : ScalarTypeOf(options.type),
               options.progress) {
  c10::InferenceMode inference;
  info_.device = std::move(device_name);
  info_.tile = options.tile;
  info_.weight_bytes = weights_.bytes;
  if (device.is_cuda()) info_.stream = nullptr;  // LibTorch's current one: the device's default
  if (!spec.learned_positions) {
    ropes_.emplace_back(options.rope_frequencies, spec.rope.attention_factor, spec.context_length,
                        device);
    if (spec.sliding_rope.has_value()) {
      ropes_.emplace_back(options.sliding_rope_frequencies, spec.sliding_rope->attention_factor,
                          spec.context_length, device);
    }
  }
  const std::vector<int64_t> shape = {spec.layers, options.pages + 1, kPageTokens, spec.kv_heads,
                                      spec.head_size};
  const auto where = at::TensorOptions().dtype(type_).device(device);
  // A kernel that masks what a row does not see still multiplies it, so there must be no NaN. On a
  // processor only what is seen is read, and memory that is not written costs nothing.
  keys_ = device.is_cpu() ? at::empty(shape, where) : at::zeros(shape, where);
  values_ = device.is_cpu() ? at::empty(shape, where) : at::zeros(shape, where);
  const double scale = spec.attention_scale == 0.0
                           ? 1.0 / std::sqrt(static_cast<double>(spec.head_size))
                           : spec.attention_scale;
  const HeadSizes sizes{spec.heads, spec.kv_heads, spec.head_size, scale};
  attender_ = options.attention == Attention::kFlash
                  ? MakeFlashAttender(sizes, device, options.pages,
                                      (spec.context_length + kPageTokens - 1) / kPageTokens)
                  : MakeGatherAttender(sizes, device);
}

absl::Status DecoderStep::Run(const PassRows& pass) {
  if (options_.attention == Attention::kFlash) {
    for (const Row& row : pass.rows) {
      if (row.visible != row.straight) {
        return absl::UnimplementedError("a tree of tokens: this attention computes chains alone");
      }
    }
  }
  return Guarded("compute a pass", [&] { Compute(pass); });
}

void DecoderStep::Compute(const PassRows& pass) {
  c10::InferenceMode inference;
  if (device_.is_cpu() && at::get_num_threads() != 1) at::set_num_threads(1);
  Begin(pass);
  for (size_t layer = 0; layer < weights_.layers.size(); ++layer) {
    // Rows see keys and values of rows in later tiles too: all are written first.
    for (Tile& tile : tiles_) Project(tile, layer);
    for (size_t i = 0; i < tiles_.size(); ++i) {
      const at::Tensor attended =
          attender_->Attend(CacheOf(layer), spec_.window(static_cast<int>(layer)),
                            static_cast<int>(i), tiles_[i].queries);
      Finish(tiles_[i], weights_.layers[layer], attended);
    }
  }
  Output(pass);
}

void DecoderStep::Begin(const PassRows& pass) {
  const size_t tile_rows = static_cast<size_t>(options_.tile);
  const int64_t scratch = int64_t{options_.pages} * kPageTokens;
  attender_->Begin(pass, options_.tile);
  tiles_.clear();
  for (size_t first = 0; first < pass.rows.size(); first += tile_rows) {
    std::vector<int64_t> tokens(tile_rows, 0);
    std::vector<int64_t> positions(tile_rows, 0);
    std::vector<int64_t> cells(tile_rows, scratch);
    const size_t count = std::min(tile_rows, pass.rows.size() - first);
    for (size_t i = 0; i < count; ++i) {
      const Row& row = pass.rows[first + i];
      const uint32_t page = pass.pages[static_cast<size_t>(row.part)][row.cell / kPageTokens];
      tokens[i] = row.token;
      positions[i] = row.position;
      cells[i] = int64_t{page} * kPageTokens + row.cell % kPageTokens;
    }
    Tile tile;
    tile.cells = Upload(cells);
    const at::Tensor places = Upload(positions);
    for (const RopeTable& rope : ropes_) tile.rotations.push_back(rope.At(places));
    tile.x = Embed(Upload(tokens), places);
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
  const at::Tensor qkv = Multiply(Normed(spec_.norm, tile.x, weights.attention_norm), weights.qkv);
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
  const at::Tensor attention = Multiply(attended, weights.o);
  if (!spec_.parallel_residual) Add(tile.x, attention, weights.post_attention_norm);
  const at::Tensor mlp = Mlp(Normed(spec_.norm, tile.x, weights.mlp_norm), weights);
  if (spec_.parallel_residual) Add(tile.x, attention, weights.post_attention_norm);
  Add(tile.x, mlp, weights.post_mlp_norm);
}

at::Tensor DecoderStep::Mlp(const at::Tensor& x, const LayerWeights& weights) const {
  const at::Tensor inner = Multiply(x, weights.gate_up);
  if (!spec_.gated_mlp) return Multiply(Activated(spec_.activation, inner), weights.down);
  const int64_t size = spec_.intermediate_size;
  const at::Tensor gate = inner.slice(1, 0, size).contiguous();
  const at::Tensor activated =
      Activated(spec_.activation, gate).mul_(inner.slice(1, size, 2 * size));
  return Multiply(activated, weights.down);
}

void DecoderStep::Add(at::Tensor& x, const at::Tensor& branch, const NormWeights& post_norm) const {
  const at::Tensor normed = Normed(spec_.norm, branch, post_norm);
  x.add_(spec_.residual_scale == 1.0 ? normed : normed.mul(spec_.residual_scale));
}

void DecoderStep::Output(const PassRows& pass) {
  logits_rows_ = static_cast<int64_t>(pass.logits_rows.size());
  if (logits_rows_ == 0) return;
  const int64_t tile_rows = options_.tile;
  const int64_t tiles = (logits_rows_ + tile_rows - 1) / tile_rows;
  std::vector<int64_t> wanted(pass.logits_rows.begin(), pass.logits_rows.end());
  wanted.resize(static_cast<size_t>(tiles * tile_rows), wanted.back());
  std::vector<at::Tensor> all;
  for (const Tile& tile : tiles_) all.push_back(tile.x);
  const at::Tensor x = at::cat(all).index_select(0, Upload(wanted));
  std::vector<at::Tensor> logits;
  for (int64_t i = 0; i < tiles; ++i) {
    const at::Tensor rows = x.slice(0, i * tile_rows, (i + 1) * tile_rows);
    logits.push_back(Multiply(Normed(spec_.norm, rows, weights_.final_norm), weights_.output));
  }
  logits_ = logits.size() == 1 ? logits[0] : at::cat(logits);
  if (spec_.logit_scale != 1.0) logits_.mul_(spec_.logit_scale);
}

at::Tensor DecoderStep::Product(at::Tensor multiply(const at::Tensor&, const at::Tensor&),
                                const at::Tensor& x, const Linear& linear) const {
  const ProductThreads threads(device_, options_.threads);
  return multiply(x, linear.weight.t());
}

at::Tensor DecoderStep::Multiply(const at::Tensor& x, const Linear& linear) const {
  at::Tensor product;
  if (linear.scales.defined()) {
    const Int8Rows rows = Quantized(x);
    product = Scaled(Product(at::_int_mm, rows.integers, linear), rows.scales, linear.scales);
  } else {
    product = Product(at::mm, x.to(type_), linear).to(at::kFloat);
  }
  return linear.bias.defined() ? product.add_(linear.bias) : product;
}

DeviceLogits DecoderStep::logits() const {
  if (logits_rows_ == 0) return {};
  return {logits_.const_data_ptr<float>(), logits_.stride(0)};
}

absl::Status DecoderStep::ReadLogits(float* logits) {
  if (logits_rows_ == 0) return absl::OkStatus();
  return Guarded("read logits", [&] {
    c10::InferenceMode inference;
    const at::Tensor host = logits_.slice(0, 0, logits_rows_).cpu();
    std::memcpy(logits, host.const_data_ptr(), host.nbytes());
  });
}

absl::Status DecoderStep::CopyCell(const uint32_t* pages, int from, int to) {
  return Guarded("move a cell", [&] {
    c10::InferenceMode inference;
    auto cell = [pages](const at::Tensor& cache, int number) {
      return cache.select(1, static_cast<int64_t>(pages[number / kPageTokens]))
          .select(1, number % kPageTokens);
    };
    for (const at::Tensor* cache : {&keys_, &values_}) {
      cell(*cache, to).copy_(cell(*cache, from));
    }
  });
}

at::Tensor DecoderStep::Upload(const std::vector<int64_t>& values) const {
  return Uploaded(values, device_);
}

LayerCache DecoderStep::CacheOf(size_t layer) const {
  const int64_t i = static_cast<int64_t>(layer);
  return {keys_.select(0, i), values_.select(0, i)};
}

}  // namespace tandem::torch
