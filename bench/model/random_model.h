// A Llama shape of 0.21 B parameters with random weights: larger than any cache, for what a step
// costs when the weights come from memory.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "model/llama.h"

namespace tandem::bench {

// Random tensors, all of one dtype.
class RandomTensors {
 public:
  explicit RandomTensors(const char* dtype) : dtype_(dtype) {}

  const model::TensorView* Make(std::vector<int64_t> shape) {
    size_t count = 1;
    for (int64_t size : shape) count *= static_cast<size_t>(size);
    const bool bf16 = dtype_ == "BF16";
    std::vector<uint32_t>& words = data_.emplace_back((bf16 ? count + 1 : 2 * count) / 2);
    // Small numbers of either sign: 0x3cxx.... is about 0.01 in both formats.
    for (uint32_t& word : words) word = (random_() & 0x80ff80ffu) | 0x3c003c00u;
    return &views_.emplace_back(
        model::TensorView{dtype_, std::move(shape), words.data(), count * (bf16 ? 2 : 4)});
  }

 private:
  const std::string dtype_;
  std::minstd_rand random_;
  std::deque<std::vector<uint32_t>> data_;
  std::deque<model::TensorView> views_;
};

// `pool_tokens`: of all sequences together.
inline std::unique_ptr<model::LanguageModel> RandomModel(const char* dtype, int threads,
                                                         int64_t pool_tokens) {
  model::LlamaConfig c;
  c.vocabulary_size = 32000;
  c.context_length = 2048;
  c.hidden_size = 1024;
  c.feed_forward_size = 2816;
  c.layers = 16;
  c.heads = 16;
  c.kv_heads = 4;
  c.head_size = 64;
  c.tied_embeddings = true;
  RandomTensors tensors(dtype);
  model::LlamaViews views;
  views.embedding = views.output = tensors.Make({c.vocabulary_size, c.hidden_size});
  views.final_norm = tensors.Make({c.hidden_size});
  const int64_t hidden = c.hidden_size;
  const int64_t kv = c.kv_heads * c.head_size;
  for (int i = 0; i < c.layers; ++i) {
    model::LlamaLayerViews layer;
    layer.attention_norm = tensors.Make({hidden});
    layer.q.weight = tensors.Make({hidden, hidden});
    layer.k.weight = tensors.Make({kv, hidden});
    layer.v.weight = tensors.Make({kv, hidden});
    layer.o.weight = tensors.Make({hidden, hidden});
    layer.feed_forward_norm = tensors.Make({hidden});
    layer.gate.weight = tensors.Make({c.feed_forward_size, hidden});
    layer.up.weight = tensors.Make({c.feed_forward_size, hidden});
    layer.down.weight = tensors.Make({hidden, c.feed_forward_size});
    views.layers.push_back(layer);
  }
  model::LlamaOptions options;
  options.threads = threads;
  options.pool_tokens = pool_tokens;
  return std::make_unique<model::Llama>(
      c, model::LlamaWeights(c, views, model::Dtype::kAuto, nullptr), options, "random");
}

}  // namespace tandem::bench
