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
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/weights.h"

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
  at::Tensor feed_forward_norm;
  Linear gate, up, down;
};

Layer Read(const LlamaLayerViews& views) {
  return {Read(views.attention_norm),
          Read(views.q),
          Read(views.k),
          Read(views.v),
          Read(views.o),
          Read(views.feed_forward_norm),
          Read(views.gate),
          Read(views.up),
          Read(views.down)};
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

class LlamaReference final : public Reference {
 public:
  LlamaReference(const LlamaConfig& config, const LlamaViews& views)
      : config_(config),
        embedding_(Read(views.embedding)),
        final_norm_(Read(views.final_norm)),
        output_{Read(views.output), at::Tensor()} {
    for (const LlamaLayerViews& layer : views.layers) layers_.push_back(Read(layer));
    std::vector<float> frequencies = RopeFrequencies(config.rope, config.head_size);
    frequencies_ = at::tensor(frequencies);
  }

  int vocabulary_size() const override { return config_.vocabulary_size; }

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
      at::Tensor normed = Norm(x, layer.feed_forward_norm);
      x = x + layer.down(at::silu(layer.gate(normed)) * layer.up(normed));
    }
    at::Tensor logits = output_(Norm(x, final_norm_)).contiguous();  // [n, vocabulary]
    const float* data = logits.const_data_ptr<float>();
    return std::vector<float>(data, data + logits.numel());
  }

 private:
  at::Tensor Norm(const at::Tensor& x, const at::Tensor& weight) const {
    at::Tensor mean = x.pow(2).mean(-1, /*keepdim=*/true);
    return weight * (x * at::rsqrt(mean + config_.rms_norm_epsilon));
  }

  // x: [heads, n, head]
  at::Tensor Rotate(const at::Tensor& x, const at::Tensor& angles) const {
    const int64_t half = config_.head_size / 2;
    at::Tensor turned = at::cat({-x.slice(-1, half), x.slice(-1, 0, half)}, -1);
    return x * angles.cos() + turned * angles.sin();
  }

  at::Tensor Heads(const at::Tensor& x, int heads) const {
    return x.view({x.size(0), heads, config_.head_size}).transpose(0, 1);  // [heads, n, head]
  }

  at::Tensor Attention(const Layer& layer, const at::Tensor& x, const at::Tensor& angles,
                       const at::Tensor& mask) const {
    const int group = config_.heads / config_.kv_heads;
    at::Tensor q = Rotate(Heads(layer.q(x), config_.heads), angles);
    at::Tensor k = Rotate(Heads(layer.k(x), config_.kv_heads), angles);
    at::Tensor v = Heads(layer.v(x), config_.kv_heads);
    k = k.repeat_interleave(group, 0);
    v = v.repeat_interleave(group, 0);
    at::Tensor scores = at::matmul(q, k.transpose(1, 2)) / std::sqrt(config_.head_size);
    scores = scores.masked_fill(mask, -std::numeric_limits<float>::infinity());
    at::Tensor out = at::matmul(at::softmax(scores, -1), v);  // [heads, n, head]
    return layer.o(out.transpose(0, 1).reshape({x.size(0), -1}));
  }

  const LlamaConfig config_;
  at::Tensor embedding_;
  at::Tensor final_norm_;
  Linear output_;
  std::vector<Layer> layers_;
  at::Tensor frequencies_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Reference>> Reference::Load(const std::string& directory) {
  TANDEM_ASSIGN_OR_RETURN(LlamaConfig config, ReadConfig(directory));
  TANDEM_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(directory));
  TANDEM_ASSIGN_OR_RETURN(LlamaViews views, FindLlamaTensors(config, checkpoint));
  return std::make_unique<LlamaReference>(config, views);
}

}  // namespace tandem::model
