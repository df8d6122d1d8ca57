// A Llama step made of LibTorch's own operations, with a cache of keys and values: what a step does
// whose linear layers choose their order of summation by the number of rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "model/spec/decoder_spec.h"

namespace tandem::bench {

// One sequence. Thread safety: one thread at a time.
class StockLlama {
 public:
  // Weights and activations are of `type` (at::kFloat or at::kBFloat16); norms and softmax are
  // computed in fp32, as transformers does. Errors as model::Load.
  static absl::StatusOr<std::unique_ptr<StockLlama>> Load(const std::string& directory,
                                                          at::ScalarType type);

  void Restart() { length_ = 0; }
  void Truncate(int length) { length_ = length; }

  // Appends the tokens; logits of all of them in fp32, [tokens, vocabulary]. No more tokens in all
  // than the model's context.
  at::Tensor Forward(absl::Span<const uint32_t> tokens);

 private:
  struct Layer {
    at::Tensor attention_norm, q, k, v, o, mlp_norm, gate, up, down;
    at::Tensor keys, values;  // [kv_heads, context, head]
  };

  StockLlama(const model::DecoderSpec& spec, at::ScalarType type);
  at::Tensor Norm(const at::Tensor& x, const at::Tensor& weight) const;
  at::Tensor Attention(Layer& layer, const at::Tensor& x, const at::Tensor& mask);
  at::Tensor Heads(const at::Tensor& x, int heads) const;   // [heads, n, head]
  at::Tensor Rotate(const at::Tensor& x, int64_t n) const;  // by the positions from length_ on

  const model::DecoderSpec spec_;
  const at::ScalarType type_;
  at::Tensor embedding_;
  at::Tensor final_norm_;
  at::Tensor output_;
  at::Tensor cosines_;  // [context, head]
  at::Tensor sines_;
  std::vector<Layer> layers_;
  int64_t length_ = 0;
};

}  // namespace tandem::bench
