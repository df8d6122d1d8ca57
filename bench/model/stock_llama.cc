#include "bench/model/stock_llama.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/copy.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "model/config.h"
#include "model/decoder_tensors.h"
#include "model/files/checkpoint.h"
#include "model/rope_table.h"

namespace tandem::bench {
namespace {

at::Tensor Read(const model::TensorView* view, at::ScalarType type) {
  at::ScalarType held = at::kFloat;
  if (view->dtype == "BF16") held = at::kBFloat16;
  if (view->dtype == "F16") held = at::kHalf;
  at::Tensor raw = at::empty(view->shape, at::TensorOptions().dtype(held));
  std::memcpy(raw.data_ptr(), view->data, view->bytes);
  return raw.to(type);
}

}  // namespace

StockLlama::StockLlama(const model::DecoderSpec& spec, at::ScalarType type)
    : spec_(spec), type_(type) {
  at::Tensor angles = at::outer(at::arange(spec.context_length, at::kFloat),
                                at::tensor(model::RopeFrequencies(spec.rope, spec.head_size)));
  angles = at::cat({angles, angles}, -1);
  cosines_ = angles.cos().to(type);
  sines_ = angles.sin().to(type);
}

absl::StatusOr<std::unique_ptr<StockLlama>> StockLlama::Load(const std::string& directory,
                                                             at::ScalarType type) {
  c10::InferenceMode inference;
  TANDEM_ASSIGN_OR_RETURN(const model::ModelConfig config, model::ReadConfig(directory));
  const model::DecoderSpec& spec = config.spec;
  if (config.family->name != "llama") {
    return absl::InvalidArgumentError(directory + " is no Llama; only Llamas are measured here");
  }
  TANDEM_ASSIGN_OR_RETURN(model::Checkpoint checkpoint, model::Checkpoint::Open(directory));
  TANDEM_ASSIGN_OR_RETURN(const model::DecoderTensors tensors,
                          model::FindTensors(spec, config.family->tensors, checkpoint));
  auto llama = std::unique_ptr<StockLlama>(new StockLlama(spec, type));
  auto read = [type](const model::TensorView* view) { return Read(view, type); };
  llama->embedding_ = read(tensors.embedding);
  llama->final_norm_ = read(tensors.final_norm);
  llama->output_ = read(tensors.output);
  for (const model::LayerTensors& layer : tensors.layers) {
    for (const model::LinearView* linear :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      if (linear->bias != nullptr) {
        return absl::InvalidArgumentError(directory + " has biases, which are not measured here");
      }
    }
    const std::vector<int64_t> cache = {spec.kv_heads, spec.context_length, spec.head_size};
    const auto options = at::TensorOptions().dtype(type);
    llama->layers_.push_back({read(layer.attention_norm), read(layer.q.weight),
                              read(layer.k.weight), read(layer.v.weight), read(layer.o.weight),
                              read(layer.mlp_norm), read(layer.gate.weight), read(layer.up.weight),
                              read(layer.down.weight), at::zeros(cache, options),
                              at::zeros(cache, options)});
  }
  return llama;
}

at::Tensor StockLlama::Norm(const at::Tensor& x, const at::Tensor& weight) const {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor mean = wide.pow(2).mean(-1, /*keepdim=*/true);
  return weight * (wide * at::rsqrt(mean + spec_.norm.epsilon)).to(type_);
}

at::Tensor StockLlama::Heads(const at::Tensor& x, int heads) const {
  return x.view({x.size(0), heads, spec_.head_size}).transpose(0, 1);
}

at::Tensor StockLlama::Rotate(const at::Tensor& x, int64_t n) const {
  const int64_t half = spec_.head_size / 2;
  const at::Tensor turned = at::cat({-x.slice(-1, half), x.slice(-1, 0, half)}, -1);
  return x * cosines_.narrow(0, length_, n) + turned * sines_.narrow(0, length_, n);
}

at::Tensor StockLlama::Attention(Layer& layer, const at::Tensor& x, const at::Tensor& mask) {
  const int64_t n = x.size(0);
  const int group = spec_.heads / spec_.kv_heads;
  const at::Tensor q = Rotate(Heads(at::linear(x, layer.q), spec_.heads), n);
  layer.keys.narrow(1, length_, n).copy_(Rotate(Heads(at::linear(x, layer.k), spec_.kv_heads), n));
  layer.values.narrow(1, length_, n).copy_(Heads(at::linear(x, layer.v), spec_.kv_heads));
  at::Tensor k = layer.keys.narrow(1, 0, length_ + n);
  at::Tensor v = layer.values.narrow(1, 0, length_ + n);
  if (group > 1) {
    k = k.repeat_interleave(group, 0);
    v = v.repeat_interleave(group, 0);
  }
  at::Tensor scores = at::matmul(q, k.transpose(1, 2)) / std::sqrt(spec_.head_size);
  if (n > 1) scores = scores.masked_fill(mask, -std::numeric_limits<float>::infinity());
  const at::Tensor weights = at::softmax(scores, -1, at::kFloat).to(type_);
  return at::linear(at::matmul(weights, v).transpose(0, 1).reshape({n, -1}), layer.o);
}

at::Tensor StockLlama::Forward(absl::Span<const uint32_t> tokens) {
  c10::InferenceMode inference;
  const int64_t n = static_cast<int64_t>(tokens.size());
  const at::Tensor mask = at::ones({n, length_ + n}, at::kBool).triu(length_ + 1);
  at::Tensor x =
      at::embedding(embedding_, at::tensor(std::vector<int64_t>(tokens.begin(), tokens.end())));
  for (Layer& layer : layers_) {
    x = x + Attention(layer, Norm(x, layer.attention_norm), mask);
    const at::Tensor normed = Norm(x, layer.mlp_norm);
    x = x + at::linear(at::silu(at::linear(normed, layer.gate)) * at::linear(normed, layer.up),
                       layer.down);
  }
  length_ += n;
  return at::linear(Norm(x, final_norm_), output_).to(at::kFloat).contiguous();
}

}  // namespace tandem::bench
