#include "model/reference.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/copy.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/outer.h>
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
#include "model/config.h"
#include "model/decoder.h"
#include "model/decoder_tensors.h"
#include "model/files/checkpoint.h"
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

struct Layer {
  at::Tensor attention_norm;
  Linear q, k, v, o;
  at::Tensor mlp_norm;
  Linear gate, up, down;
};

Layer Read(const LayerTensors& views) {
  return {
      Read(views.attention_norm), Read(views.q),    Read(views.k),  Read(views.v),   Read(views.o),
      Read(views.mlp_norm),       Read(views.gate), Read(views.up), Read(views.down)};
}

// Which tokens a token sees, and its position. Empty parents: a chain.
struct Tree {
  at::Tensor hidden;     // [n, n], true: row does not see column
  at::Tensor positions;  // [n]
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
        final_norm_(Read(tensors.final_norm)),
        output_{Read(tensors.output), at::Tensor()} {
    for (const LayerTensors& layer : tensors.layers) layers_.push_back(Read(layer));
    std::vector<float> frequencies = RopeFrequencies(spec.rope, spec.head_size);
    frequencies_ = at::tensor(frequencies);
  }

  int vocabulary_size() const override { return spec_.vocabulary_size; }

  std::vector<float> Logits(absl::Span<const uint32_t> tokens,
                            absl::Span<const int> parents) override {
    c10::InferenceMode inference;
    const int64_t n = static_cast<int64_t>(tokens.size());
    at::Tensor ids = at::tensor(std::vector<int64_t>(tokens.begin(), tokens.end()));
    const Tree tree = MakeTree(n, parents);
    at::Tensor angles = at::outer(tree.positions, frequencies_);  // [n, head / 2]
    angles = at::cat({angles, angles}, -1);                       // [n, head]
    at::Tensor x = at::embedding(embedding_, ids);                // [n, hidden]
    for (const Layer& layer : layers_) {
      x = x + Attention(layer, Norm(x, layer.attention_norm), angles, tree.hidden);
      at::Tensor normed = Norm(x, layer.mlp_norm);
      x = x + layer.down(at::silu(layer.gate(normed)) * layer.up(normed));
    }
    at::Tensor logits = output_(Norm(x, final_norm_)).contiguous();  // [n, vocabulary]
    const float* data = logits.const_data_ptr<float>();
    return std::vector<float>(data, data + logits.numel());
  }

 private:
  at::Tensor Norm(const at::Tensor& x, const at::Tensor& weight) const {
    at::Tensor mean = x.pow(2).mean(-1, /*keepdim=*/true);
    return weight * (x * at::rsqrt(mean + spec_.norm.epsilon));
  }

  // x: [heads, n, head]
  at::Tensor Rotate(const at::Tensor& x, const at::Tensor& angles) const {
    const int64_t half = spec_.head_size / 2;
    at::Tensor turned = at::cat({-x.slice(-1, half), x.slice(-1, 0, half)}, -1);
    return x * angles.cos() + turned * angles.sin();
  }

  at::Tensor Heads(const at::Tensor& x, int heads) const {
    return x.view({x.size(0), heads, spec_.head_size}).transpose(0, 1);  // [heads, n, head]
  }

  at::Tensor Attention(const Layer& layer, const at::Tensor& x, const at::Tensor& angles,
                       const at::Tensor& mask) const {
    const int group = spec_.heads / spec_.kv_heads;
    at::Tensor q = Rotate(Heads(layer.q(x), spec_.heads), angles);
    at::Tensor k = Rotate(Heads(layer.k(x), spec_.kv_heads), angles);
    at::Tensor v = Heads(layer.v(x), spec_.kv_heads);
    k = k.repeat_interleave(group, 0);
    v = v.repeat_interleave(group, 0);
    at::Tensor scores = at::matmul(q, k.transpose(1, 2)) / std::sqrt(spec_.head_size);
    scores = scores.masked_fill(mask, -std::numeric_limits<float>::infinity());
    at::Tensor out = at::matmul(at::softmax(scores, -1), v);  // [heads, n, head]
    return layer.o(out.transpose(0, 1).reshape({x.size(0), -1}));
  }

  const DecoderSpec spec_;
  at::Tensor embedding_;
  at::Tensor final_norm_;
  Linear output_;
  std::vector<Layer> layers_;
  at::Tensor frequencies_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Reference>> Reference::Load(const std::string& directory) {
  TANDEM_ASSIGN_OR_RETURN(const ModelConfig config, ReadConfig(directory));
  TANDEM_RETURN_IF_ERROR(Decoder::CheckSpec(config.spec));  // it computes the same
  TANDEM_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(directory));
  TANDEM_ASSIGN_OR_RETURN(const DecoderTensors tensors,
                          FindTensors(config.spec, config.family->tensors, checkpoint));
  return std::make_unique<DecoderReference>(config.spec, tensors);
}

}  // namespace tandem::model
