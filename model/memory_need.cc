#include "model/memory_need.h"

#include <algorithm>
#include <cstdint>

#include "model/activations.h"
#include "model/page_pool.h"

namespace tandem::model {
namespace {

constexpr int64_t kDefaultPoolTokens = 65536;

int64_t Bytes(const TensorView* view, Dtype dtype) {
  if (view == nullptr) return 0;
  int64_t elements = 1;
  for (int64_t size : view->shape) elements *= size;
  if (dtype == Dtype::kFloat32) return 4 * elements;
  if (dtype == Dtype::kBfloat16 || dtype == Dtype::kFloat16) return 2 * elements;
  if (dtype == Dtype::kInt8) return elements + 4 * view->shape[0];
  return static_cast<int64_t>(view->bytes);
}

}  // namespace

std::vector<process::MemoryPart> MemoryNeed(const DecoderSpec& spec, const DecoderTensors& tensors,
                                            Dtype dtype, int64_t pool_tokens, int max_rows) {
  int64_t weights = Bytes(tensors.output, dtype);
  if (!spec.tied_embeddings) {
    weights += Bytes(tensors.embedding, dtype == Dtype::kInt8 ? Dtype::kAuto : dtype);
  }
  for (const LayerTensors& layer : tensors.layers) {
    for (const LinearView* part :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      weights += Bytes(part->weight, dtype) + Bytes(part->bias, Dtype::kFloat32);
    }
    for (const TensorView* norm :
         {layer.attention_norm, layer.attention_norm_bias, layer.q_norm, layer.k_norm,
          layer.post_attention_norm, layer.mlp_norm, layer.mlp_norm_bias, layer.post_mlp_norm}) {
      weights += Bytes(norm, Dtype::kFloat32);
    }
  }
  weights += Bytes(tensors.positions, Dtype::kFloat32);
  // What a checkpoint mixes or transposes is there twice while it is packed.
  weights += tensors.owned_bytes;
  // As Activations has them, without the gaps between rows.
  const int64_t extra = (AddsAtOnce(spec) ? 0 : spec.hidden_size) +
                        (spec.gated_mlp && !HasSwiGlu(spec) ? 2 * spec.intermediate_size : 0);
  const int64_t row = extra + int64_t{2} * spec.hidden_size + spec.q_size() + 2 * spec.kv_size() +
                      spec.q_size() + spec.intermediate_size + spec.vocabulary_size;
  return {{"weights", weights},
          {"cache", pool_tokens * PagePool::TokenBytes(spec.layers, spec.kv_heads, spec.head_size),
           /*is_written=*/false},
          {"activations", row * max_rows * static_cast<int64_t>(sizeof(float))}};
}

int64_t DefaultPoolTokens(int64_t token_bytes, int context_length) {
  const process::FreeMemory free = process::ThisFreeMemory();
  const int64_t memory = std::min(free.memory_bytes, free.address_bytes);
  return std::max<int64_t>(context_length, std::min(kDefaultPoolTokens, memory / 4 / token_bytes));
}

}  // namespace tandem::model
