#include "model/reference.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/copy.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <c10/core/InferenceMode.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "common/base/status_macros.h"
#include "common/hub/snapshot_directory.h"
#include "model/config.h"
#include "model/decoder.h"
#include "model/decoder_tensors.h"
#include "model/files/checkpoint.h"
#include "model/load.h"
#include "model/rope_table.h"

namespace tandem::model {
namespace {

// A copy in fp32; an undefined tensor for null.
at::Tensor Read(const TensorView* view) {
  if (view == nullptr) return at::Tensor();
  at::ScalarType type = at::kFloat;
  if (view->dtype == "BF16") type = at::kBFloat16;
  if (view->dtype == "F16") type = at::kHalf;
  at::Tensor raw = at::empty(view->shape, at::TensorOptions().dtype(type));
  std::memcpy(raw.data_ptr(), view->data, view->bytes);
  return raw.to(at::kFloat);
}

struct Linear {
  at::Tensor weight;
  at::Tensor bias;

  at::Tensor operator()(const at::Tensor& x) const {
    return bias.defined() ? at::linear(x, weight, bias) : at::linear(x, weight);
  }
};

Linear Read(const LinearView& view) { return {Read(view.weight), Read(view.bias)}; }

// What the specification does not have is undefined.
struct Norm {
  at::Tensor weight;
  at::Tensor bias;
};

struct Layer {
  Norm attention_norm;
  Linear q, k, v;
  Norm q_norm, k_norm;
  Linear o;
  Norm post_attention_norm;
  Norm mlp_norm;
  Linear gate, up, down;
  Norm post_mlp_norm;
};

Layer Read(const LayerTensors& views) {
  return {{Read(views.attention_norm), Read(views.attention_norm_bias)},
          Read(views.q),
          Read(views.k),
          Read(views.v),
          {Read(views.q_norm), {}},
          {Read(views.k_norm), {}},
          Read(views.o),
          {Read(views.post_attention_norm), {}},
          {Read(views.mlp_norm), Read(views.mlp_norm_bias)},
          Read(views.gate),
          Read(views.up),
          Read(views.down),
          {Read(views.post_mlp_norm), {}}};
}

at::Tensor Activate(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::kGelu:
      return at::gelu(x);
    case Activation::kGeluTanh:
      return at::gelu(x, "tanh");
    case Activation::kRelu:
      return at::relu(x);
    case Activation::kSilu:
      break;
  }
  return at::silu(x);
}

// The tokens that a token sees, and its position. Empty parents: a chain.
struct Tree {
  at::Tensor hidden;     // [n, n], true: row does not see column
  at::Tensor positions;  // [n]

  // As `hidden`, of rows that see so many positions, their own the last; 0: all.
  at::Tensor Hidden(int window) const {
    if (window == 0) return hidden;
    const at::Tensor back = positions.unsqueeze(1) - positions.unsqueeze(0);
    return at::logical_or(hidden, back >= window);
  }
};

Tree MakeTree(int64_t n, absl::Span<const int> parents) {
  std::vector<float> positions;
  at::Tensor hidden = at::ones({n, n}, at::kBool);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t parent = parents.empty() ? i - 1 : parents[i];
    if (parent >= 0) hidden[i].copy_(hidden[parent]);
    hidden[i][i] = false;
    positions.push_back(parent < 0 ? 0.0f : positions[parent] + 1);
  }
  return {hidden, at::tensor(positions)};
}

class DecoderReference final : public Reference {
 public:
  DecoderReference(const DecoderSpec& spec, const DecoderTensors& tensors)
      : spec_(spec),
        embedding_(Read(tensors.embedding)),
        positions_(Read(tensors.positions)),
        final_norm_{Read(tensors.final_norm), Read(tensors.final_norm_bias)},
        output_{Read(tensors.output), at::Tensor()} {
    for (const LayerTensors& layer : tensors.layers) layers_.push_back(Read(layer));
  }

  int vocabulary_size() const override { return spec_.vocabulary_size; }

  std::vector<float> Logits(absl::Span<const uint32_t> tokens,
                            absl::Span<const int> parents) override {
    c10::InferenceMode inference;
    const int64_t n = static_cast<int64_t>(tokens.size());
    at::Tensor ids = at::tensor(std::vector<int64_t>(tokens.begin(), tokens.end()));
    const Tree tree = MakeTree(n, parents);
    at::Tensor x = at::embedding(embedding_, ids) * spec_.embedding_scale;  // [n, hidden]
    if (spec_.learned_positions) {
      const at::Tensor at = tree.positions.to(at::kLong) + spec_.position_offset;
      x = x + at::embedding(positions_, at);
    }
    for (int i = 0; i < spec_.layers; ++i) {
      const Layer& layer = layers_[i];
      const at::Tensor attended =
          Branch(Attention(i, Normed(x, layer.attention_norm), tree), layer.post_attention_norm);
      if (!spec_.parallel_residual) x = x + attended;
      const at::Tensor normed = Normed(x, layer.mlp_norm);
      x = x + Branch(Mlp(layer, normed), layer.post_mlp_norm);
      if (spec_.parallel_residual) x = x + attended;
    }
    at::Tensor logits = output_(Normed(x, final_norm_)) * spec_.logit_scale;  // [n, vocabulary]
    logits = logits.contiguous();
    const float* data = logits.const_data_ptr<float>();
    return std::vector<float>(data, data + logits.numel());
  }

 private:
  // x itself where there is no such norm.
  at::Tensor Normed(const at::Tensor& x, const Norm& norm) const {
    if (!norm.weight.defined()) return x;
    if (spec_.norm.kind == NormSpec::Kind::kLayer) {
      const at::Tensor centred = x - x.mean(-1, /*keepdim=*/true);
      const at::Tensor variance = centred.pow(2).mean(-1, /*keepdim=*/true);
      return norm.weight * (centred * at::rsqrt(variance + spec_.norm.epsilon)) + norm.bias;
    }
    at::Tensor mean = x.pow(2).mean(-1, /*keepdim=*/true);
    const at::Tensor weight = spec_.norm.plus_one ? norm.weight + 1 : norm.weight;
    return weight * (x * at::rsqrt(mean + spec_.norm.epsilon));
  }

  // What is added to the residual.
  at::Tensor Branch(const at::Tensor& x, const Norm& post_norm) const {
    return Normed(x, post_norm) * spec_.residual_scale;
  }

  at::Tensor Mlp(const Layer& layer, const at::Tensor& x) const {
    if (!spec_.gated_mlp) return layer.down(Activate(spec_.activation, layer.up(x)));
    return layer.down(Activate(spec_.activation, layer.gate(x)) * layer.up(x));
  }

  // x: [heads, n, head]
  at::Tensor Rotate(const RopeSpec& rope, const at::Tensor& x, const at::Tensor& positions) const {
    const int64_t size = rope.rotary_size(spec_.head_size);
    const at::Tensor frequencies = at::tensor(RopeFrequencies(rope, spec_.head_size));
    at::Tensor angles = at::outer(positions, frequencies);  // [n, size / 2]
    angles = at::cat({angles, angles}, -1);                 // [n, size]
    const at::Tensor part = x.slice(-1, 0, size);
    const at::Tensor turned = at::cat({-part.slice(-1, size / 2), part.slice(-1, 0, size / 2)}, -1);
    const at::Tensor rotated =
        (part * angles.cos() + turned * angles.sin()) * rope.attention_factor;
    return at::cat({rotated, x.slice(-1, size)}, -1);
  }

  at::Tensor Heads(const at::Tensor& x, int heads) const {
    return x.view({x.size(0), heads, spec_.head_size}).transpose(0, 1);  // [heads, n, head]
  }

  // q or k of all heads, [heads, n, head], normed and rotated.
  at::Tensor Prepared(int layer, at::Tensor x, const Norm& norm, int heads,
                      const at::Tensor& positions) const {
    if (spec_.qk_norm == QkNorm::kWidth) x = Normed(x, norm);
    x = Heads(x, heads);
    if (spec_.qk_norm == QkNorm::kHead) x = Normed(x, norm);
    const RopeSpec* rope = spec_.layer_rope(layer);
    return rope == nullptr ? x : Rotate(*rope, x, positions);
  }

  at::Tensor Attention(int index, const at::Tensor& x, const Tree& tree) const {
    const Layer& layer = layers_[index];
    const int group = spec_.heads / spec_.kv_heads;
    at::Tensor q = Prepared(index, layer.q(x), layer.q_norm, spec_.heads, tree.positions);
    at::Tensor k = Prepared(index, layer.k(x), layer.k_norm, spec_.kv_heads, tree.positions);
    at::Tensor v = Heads(layer.v(x), spec_.kv_heads);
    k = k.repeat_interleave(group, 0);
    v = v.repeat_interleave(group, 0);
    const double scale =
        spec_.attention_scale == 0 ? 1 / std::sqrt(spec_.head_size) : spec_.attention_scale;
    at::Tensor scores = at::matmul(q, k.transpose(1, 2)) * scale;
    scores = scores.masked_fill(tree.Hidden(spec_.window(index)),
                                -std::numeric_limits<float>::infinity());
    at::Tensor out = at::matmul(at::softmax(scores, -1), v);  // [heads, n, head]
    return layer.o(out.transpose(0, 1).reshape({x.size(0), -1}));
  }

  const DecoderSpec spec_;
  at::Tensor embedding_;
  at::Tensor positions_;  // [context + offset, hidden]
  Norm final_norm_;
  Linear output_;
  std::vector<Layer> layers_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Reference>> Reference::Load(const std::string& given) {
  TANDEM_ASSIGN_OR_RETURN(const std::string directory, hub::SnapshotDirectory(given));
  TANDEM_ASSIGN_OR_RETURN(const ModelConfig config, ReadConfig(directory));
  TANDEM_RETURN_IF_ERROR(Decoder::CheckSpec(config.spec));  // it computes the same
  TANDEM_RETURN_IF_ERROR(CheckWholeOutput(config));         // but for this
  TANDEM_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(directory));
  TANDEM_ASSIGN_OR_RETURN(const DecoderTensors tensors,
                          FindTensors(config.spec, config.family->tensors, checkpoint));
  return std::make_unique<DecoderReference>(config.spec, tensors);
}

}  // namespace tandem::model
