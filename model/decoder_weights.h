// The weights of a decoder as its passes read them: packed once at load, held once.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/cpu/buffer.h"
#include "model/decoder_tensors.h"
#include "model/dtype.h"
#include "model/packed_linear.h"
#include "model/spec/decoder_spec.h"

namespace tandem::model {

struct DecoderLayer {
  cpu::Buffer attention_norm;  // [hidden, padded with zeros to whole panels]
  PackedLinear qkv;            // q, k, v one after the other
  PackedLinear o;
  cpu::Buffer mlp_norm;  // as attention_norm
  PackedLinear gate_up;  // panels of 16 gates and their 16 ups
  PackedLinear down;
};

// Immutable once made, so threads may share it.
class DecoderWeights {
 public:
  // Copies what `tensors` point at, so they may go afterwards. `progress` is called with (bytes of
  // the file packed, of how many) at the end of each layer; it may be empty.
  DecoderWeights(const DecoderSpec& spec, const DecoderTensors& tensors, Dtype dtype,
                 const std::function<void(int64_t, int64_t)>& progress);

  const std::vector<DecoderLayer>& layers() const { return layers_; }
  const cpu::Buffer& final_norm() const { return final_norm_; }
  const PackedLinear& output() const { return output_; }

  // Every weight has the file's value: nothing was rounded, or rounding changed nothing.
  bool exact() const { return exact_; }
  Dtype dtype() const { return dtype_; }    // as asked for
  int64_t bytes() const { return bytes_; }  // held

  // The embedding of a token: [hidden].
  void Embed(uint32_t token, float* out) const;

 private:
  void Count(const DecoderLayer& layer);
  void Count(const PackedLinear& linear);
  void HoldEmbedding(const TensorView& view, Dtype dtype);

  int hidden_ = 0;
  Dtype dtype_;
  std::vector<DecoderLayer> layers_;
  cpu::Buffer final_norm_;
  PackedLinear output_;
  // Of an untied model, a token's row together; a tied one reads output_.
  cpu::Buffer embedding_;
  cpu::SourceType embedding_type_ = cpu::SourceType::kFloat32;
  bool exact_ = true;
  int64_t bytes_ = 0;
};

}  // namespace tandem::model
