// The tensors of a Llama checkpoint, each found and checked.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/safetensors.h"

namespace tandem::model {

// A weight and its bias, which is null where the model has none.
struct LinearView {
  const TensorView* weight = nullptr;  // [out, in]
  const TensorView* bias = nullptr;    // [out]
};

struct LlamaLayerViews {
  const TensorView* attention_norm = nullptr;  // input_layernorm [hidden]
  LinearView q;                                // [heads · head_size, hidden]
  LinearView k;                                // [kv_heads · head_size, hidden]
  LinearView v;
  LinearView o;                                   // [hidden, heads · head_size]
  const TensorView* feed_forward_norm = nullptr;  // post_attention_layernorm [hidden]
  LinearView gate;                                // [ffn, hidden]
  LinearView up;
  LinearView down;  // [hidden, ffn]
};

// Points into a Checkpoint, which must outlive it.
struct LlamaViews {
  const TensorView* embedding = nullptr;  // [vocabulary, hidden]
  std::vector<LlamaLayerViews> layers;
  const TensorView* final_norm = nullptr;  // [hidden]
  const TensorView* output = nullptr;      // lm_head [vocabulary, hidden]; the embedding where tied
};

// INVALID_ARGUMENT: one message with every missing, unexpected, mis-shaped and wrongly typed
// tensor. Left out of account: rotary_emb.inv_freq (old checkpoints; computed from config.json),
// and lm_head.weight of a tied model where it equals the embedding.
absl::StatusOr<LlamaViews> FindLlamaTensors(const LlamaConfig& config,
                                            const Checkpoint& checkpoint);

}  // namespace tandem::model
