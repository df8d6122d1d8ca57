// The weights of a decoder as its passes read them: packed once at load, held once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "model/cpu/buffer.h"
#include "model/decoder_tensors.h"
#include "model/dtype.h"
#include "model/offload.h"
#include "model/packed_linear.h"
#include "model/spec/decoder_spec.h"

namespace tandem::model {

// A norm's numbers in fp32, padded with zeros to whole panels. Empty: there is no such norm, or it
// has no bias.
struct NormWeights {
  cpu::Buffer weight;  // with the 1 of NormSpec::plus_one
  cpu::Buffer bias;
};

// What the specification does not have is empty.
struct DecoderLayer {
  NormWeights attention_norm;  // [hidden]
  PackedLinear qkv;            // q, k, v one after the other
  NormWeights q_norm;          // [head_size] or [q_size]
  NormWeights k_norm;          // [head_size] or [kv_size]
  PackedLinear o;
  NormWeights post_attention_norm;  // [hidden]
  NormWeights mlp_norm;             // [hidden]
  PackedLinear gate_up;             // panels of 16 gates and their 16 ups; without gates, the ups
  PackedLinear down;
  NormWeights post_mlp_norm;  // [hidden]
};

// Immutable once made, so threads may share it.
class DecoderWeights {
 public:
  // Copies what `tensors` point at, so they may go afterwards, but for what `offload` leaves in the
  // file. `progress` is called with (bytes of the file packed, of how many) at the end of each
  // layer; it may be empty.
  DecoderWeights(const DecoderSpec& spec, const DecoderTensors& tensors, Dtype dtype,
                 const std::function<void(int64_t, int64_t)>& progress, Offload offload = {});

  const std::vector<DecoderLayer>& layers() const { return layers_; }
  const NormWeights& final_norm() const { return final_norm_; }
  const PackedLinear& output() const { return output_; }
  // As DecoderTensors::output_tokens.
  const std::vector<uint32_t>& output_tokens() const { return output_tokens_; }

  // Every weight has the file's value: nothing was rounded, or rounding changed nothing.
  bool exact() const { return exact_; }
  Dtype dtype() const { return dtype_; }  // as asked for
  // Some matrix is int8 by column, or is held by group.
  bool int8() const { return int8_; }
  bool grouped() const { return grouped_; }
  int64_t bytes() const { return bytes_; }  // held
  // Of matrices that stay in the file, so that each pass reads them there.
  int64_t file_bytes() const { return file_bytes_; }

  // Asks the system for what of layer `layer` lies in the file, so that it is read meanwhile;
  // returns at once. layers().size() is the output. The first one that lies there is
  // first_in_file().
  void ReadAhead(int layer) const;
  // The next pass reads from the disk what lies in the file, as where memory has no room for it.
  void DropPages() const {
    if (offload_.files != nullptr) offload_.files->DropPages();
  }
  int first_in_file() const {
    return std::min(offload_.first_layer, static_cast<int>(ahead_.size()));
  }

  // The embedding of a token at a position, with what the specification adds and multiplies:
  // [hidden].
  void Embed(uint32_t token, int position, float* out) const;

 private:
  void Count(const DecoderLayer& layer);
  void Count(const PackedLinear& linear);
  void Count(const NormWeights& norm);
  void HoldEmbedding(const TensorView& view, Dtype dtype);
  // `views` stay in the file: layer ahead_.size() reads them.
  void LeaveInFile(const std::vector<const TensorView*>& views);

  Offload offload_;
  std::vector<std::vector<TensorView>> ahead_;  // of each layer and the output, what is in the file
  int64_t file_bytes_ = 0;
  int hidden_ = 0;
  Dtype dtype_;
  float embedding_scale_ = 1.0f;
  int position_offset_ = 0;
  cpu::Buffer positions_;  // fp32 [rows, hidden]; empty: positions are not learned
  std::vector<DecoderLayer> layers_;
  NormWeights final_norm_;
  PackedLinear output_;
  std::vector<uint32_t> output_tokens_;
  // Of an untied model, a token's row together; a tied one reads output_.
  cpu::Buffer embedding_;
  const void* embedding_data_ = nullptr;  // in embedding_, or in the file; null: tied
  cpu::SourceType embedding_type_ = cpu::SourceType::kFloat32;
  bool exact_ = true;
  bool int8_ = false;
  bool grouped_ = false;
  int64_t bytes_ = 0;
};

}  // namespace tandem::model
