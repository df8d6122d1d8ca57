// A Llama's weights as the step reads them: packed once at load, held once.
#pragma once

#include <functional>
#include <vector>

#include "model/config.h"
#include "model/cpu/buffer.h"
#include "model/cpu/packed_matrix.h"
#include "model/dtype.h"
#include "model/weights.h"

namespace tandem::model {

// A matrix and its bias in the matrix's packed order, empty where there is none.
struct PackedLinear {
  cpu::PackedMatrix matrix;
  cpu::Buffer bias;

  const float* bias_data() const { return bias.bytes() == 0 ? nullptr : bias.floats(); }
};

struct LlamaLayer {
  cpu::Buffer attention_norm;  // [hidden, padded with zeros to whole panels]
  PackedLinear qkv;            // q, k, v one after the other
  PackedLinear o;
  cpu::Buffer feed_forward_norm;
  PackedLinear gate_up;  // panels of 16 gates and their 16 ups
  PackedLinear down;
};

// Immutable once made.
class LlamaWeights {
 public:
  // `progress` is called with (bytes of the file packed, of how many), at the end of each layer; may
  // be empty.
  LlamaWeights(const LlamaConfig& config, const LlamaViews& views, Dtype dtype,
               const std::function<void(int64_t, int64_t)>& progress);

  const std::vector<LlamaLayer>& layers() const { return layers_; }
  const cpu::Buffer& final_norm() const { return final_norm_; }
  const PackedLinear& output() const { return output_; }

  // Every weight has the file's value: nothing was rounded, or rounding changed nothing.
  bool exact() const { return exact_; }
  int64_t bytes() const { return bytes_; }  // held

  // The embedding of a token: [hidden].
  void Embed(uint32_t token, float* out) const;

 private:
  void Count(const LlamaLayer& layer);
  void Count(const PackedLinear& linear);
  void HoldEmbedding(const TensorView& view, Dtype dtype);

  int hidden_ = 0;
  std::vector<LlamaLayer> layers_;
  cpu::Buffer final_norm_;
  PackedLinear output_;
  // Of an untied model, a token's row together; a tied one reads output_.
  cpu::Buffer embedding_;
  cpu::SourceType embedding_type_ = cpu::SourceType::kFloat32;
  bool exact_ = true;
  int64_t bytes_ = 0;
};

}  // namespace tandem::model
