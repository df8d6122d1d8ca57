// The tensors that a DecoderSpec needs, found in a checkpoint by their family's names, and checked.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/files/checkpoint.h"
#include "model/files/packed_tensor.h"
#include "model/files/safetensors.h"
#include "model/spec/decoder_spec.h"
#include "model/spec/tensor_names.h"

namespace tandem::model {

// What a specification does not have is null.
struct LayerTensors {
  const TensorView* attention_norm = nullptr;       // [hidden_size]; without pre_norm null
  const TensorView* attention_norm_bias = nullptr;  // [hidden_size]; of layer norms
  LinearView q;                                     // [q_size, hidden_size]
  LinearView k;                                     // [kv_size, hidden_size]
  LinearView v;                                     // [kv_size, hidden_size]
  const TensorView* q_norm = nullptr;               // [head_size], or [q_size] (QkNorm::kWidth)
  const TensorView* k_norm = nullptr;               // [head_size], or [kv_size]
  LinearView o;                                     // [hidden_size, q_size]
  const TensorView* post_attention_norm = nullptr;  // [hidden_size]; post_norm
  const TensorView* mlp_norm = nullptr;             // as attention_norm
  const TensorView* mlp_norm_bias = nullptr;
  LinearView gate;                            // [intermediate_size, hidden_size]; gated_mlp
  LinearView up;                              // [intermediate_size, hidden_size]
  LinearView down;                            // [hidden_size, intermediate_size]
  const TensorView* post_mlp_norm = nullptr;  // [hidden_size]; post_norm
};

// Points into a Checkpoint, which must outlive it. Every weight is as the shapes say, row-major:
// what a checkpoint has fused is split, without copies where the rows of a part lie together, and
// what it has transposed or mixed is copied into `owned`. Copies of this share what it owns.
struct DecoderTensors {
  const TensorView* embedding =
      nullptr;  // [vocabulary_size, hidden_size]; tied: maybe the output's
  const TensorView* positions = nullptr;  // [context_length + position_offset, hidden_size]
  std::vector<LayerTensors> layers;
  const TensorView* final_norm = nullptr;       // [hidden_size]
  const TensorView* final_norm_bias = nullptr;  // [hidden_size]; of layer norms
  const TensorView* output = nullptr;           // [output_size, hidden_size]; tied: the embedding
  const TensorView* output_scale = nullptr;     // as LinearView::scale
  // [output_size]: the token of each of its rows, ascending. Empty: row i is of token i.
  std::vector<uint32_t> output_tokens;
  bool int8 = false;  // some weight is I8

  // A view that is not a tensor of the checkpoint, and its bytes where they are a copy.
  struct Owned {
    TensorView view;
    std::string bytes;
  };
  std::vector<std::shared_ptr<const Owned>> owned;
  int64_t owned_bytes = 0;
  // Of matrices that the checkpoint has packed: views without data (TensorView::packed).
  std::vector<std::shared_ptr<const TensorView>> packed;
};

// INVALID_ARGUMENT: one message with every tensor that is missing, unexpected, of another shape
// than the specification makes it, or of another type than F32, BF16 and F16. A linear layer may be
// I8, with "weight_scale" beside it, as compressed-tensors writes it; what is one matrix here (q, k
// and v; gate and up) is so wholly or not at all, and zero points are zero. So may an embedding
// that is not the output's: it is here in the type of its scale. Not unexpected are
// those that `names` ignores, and the output of a tied model where it equals the embedding. A tied
// model that has the output alone has its embedding there.
// With `packed`, linear layers may be so, and may have biases of zeros where there should be none.
absl::StatusOr<DecoderTensors> FindTensors(const DecoderSpec& spec, const TensorNames& names,
                                           const Checkpoint& checkpoint, PackedScheme packed = {});

}  // namespace tandem::model
