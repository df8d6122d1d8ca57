// The tensors that a DecoderSpec needs, found in a checkpoint by their family's names, and checked.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "model/files/checkpoint.h"
#include "model/files/safetensors.h"
#include "model/spec/decoder_spec.h"
#include "model/spec/tensor_names.h"

namespace tandem::model {

// A weight and its bias, which is null where the model has none.
struct LinearView {
  const TensorView* weight = nullptr;  // [out, in]
  const TensorView* bias = nullptr;    // [out]
};

struct LayerTensors {
  const TensorView* attention_norm = nullptr;  // [hidden_size]
  LinearView q;                                // [q_size, hidden_size]
  LinearView k;                                // [kv_size, hidden_size]
  LinearView v;                                // [kv_size, hidden_size]
  LinearView o;                                // [hidden_size, q_size]
  const TensorView* mlp_norm = nullptr;        // [hidden_size]
  LinearView gate;                             // [intermediate_size, hidden_size]
  LinearView up;                               // [intermediate_size, hidden_size]
  LinearView down;                             // [hidden_size, intermediate_size]
};

// Points into a Checkpoint, which must outlive it.
struct DecoderTensors {
  const TensorView* embedding =
      nullptr;  // [vocabulary_size, hidden_size]; tied: maybe the output's
  std::vector<LayerTensors> layers;
  const TensorView* final_norm = nullptr;  // [hidden_size]
  const TensorView* output = nullptr;      // [vocabulary_size, hidden_size]; tied: the embedding
};

// INVALID_ARGUMENT: one message with every tensor that is missing, unexpected, of another shape
// than the specification makes it, or of another type than F32, BF16 and F16. Not unexpected are
// those that `names` ignores, and the output of a tied model where it equals the embedding. A tied
// model that has the output alone has its embedding there.
absl::StatusOr<DecoderTensors> FindTensors(const DecoderSpec& spec, const TensorNames& names,
                                           const Checkpoint& checkpoint);

}  // namespace tandem::model
