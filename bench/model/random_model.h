// Decoders with random weights, larger than any cache, for what a pass costs when the weights come
// from memory.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "model/decoder.h"

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

// The shape of a Llama with tied embeddings.
inline model::DecoderSpec RandomSpec(int hidden, int intermediate, int layers, int heads,
                                     int kv_heads, int vocabulary, int context) {
  model::DecoderSpec spec;
  spec.vocabulary_size = vocabulary;
  spec.context_length = context;
  spec.hidden_size = hidden;
  spec.intermediate_size = intermediate;
  spec.layers = layers;
  spec.heads = heads;
  spec.kv_heads = kv_heads;
  spec.head_size = hidden / heads;
  spec.tied_embeddings = true;
  return spec;
}

// `file_dtype`: of the tensors, "F32" or "BF16". `pool_tokens`: of all sequences together.
inline std::unique_ptr<model::LanguageModel> RandomModel(
    const model::DecoderSpec& spec, const char* file_dtype, model::Dtype dtype, int threads,
    int64_t pool_tokens, model::cpu::WeightType cache_type = model::cpu::WeightType::kFloat32,
    int max_rows = model::DecoderOptions().max_rows) {
  RandomTensors random(file_dtype);
  model::DecoderTensors tensors;
  tensors.embedding = tensors.output = random.Make({spec.vocabulary_size, spec.hidden_size});
  tensors.final_norm = random.Make({spec.hidden_size});
  const int64_t hidden = spec.hidden_size;
  const int64_t kv = spec.kv_size();
  for (int i = 0; i < spec.layers; ++i) {
    model::LayerTensors layer;
    layer.attention_norm = random.Make({hidden});
    layer.q.weight = random.Make({hidden, hidden});
    layer.k.weight = random.Make({kv, hidden});
    layer.v.weight = random.Make({kv, hidden});
    layer.o.weight = random.Make({hidden, hidden});
    layer.mlp_norm = random.Make({hidden});
    layer.gate.weight = random.Make({spec.intermediate_size, hidden});
    layer.up.weight = random.Make({spec.intermediate_size, hidden});
    layer.down.weight = random.Make({hidden, spec.intermediate_size});
    tensors.layers.push_back(layer);
  }
  model::DecoderOptions options;
  options.threads = threads;
  options.pool_tokens = pool_tokens;
  options.cache_type = cache_type;
  options.max_rows = max_rows;
  model::ModelInfo info;
  info.model_id = "random";
  return std::make_unique<model::Decoder>(
      spec, model::DecoderWeights(spec, tensors, dtype, nullptr), options, std::move(info));
}

}  // namespace tandem::bench
