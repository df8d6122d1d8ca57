#include "model/decoder_weights.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "model/cpu/half.h"
#include "model/files/tensor_type.h"

namespace tandem::model {
namespace {

using cpu::SourceType;

cpu::Buffer ReadFloats(const TensorView& view, size_t padded) {
  const int64_t size = Elements(view);
  cpu::Buffer floats = cpu::FloatBuffer(padded);
  const SourceType type = SourceTypeOf(view);
  for (int64_t i = 0; i < size; ++i) floats.floats()[i] = cpu::ReadValue(view.data, type, i);
  return floats;
}

NormWeights ReadNorm(const DecoderSpec& spec, const TensorView* weight,
                     const TensorView* bias = nullptr) {
  NormWeights norm;
  if (weight == nullptr) return norm;
  const int size = static_cast<int>(weight->shape[0]);
  norm.weight = ReadFloats(*weight, cpu::RoundUpToPanel(size));
  if (spec.norm.plus_one) {
    for (int i = 0; i < size; ++i) norm.weight.floats()[i] += 1.0f;
  }
  if (bias != nullptr) norm.bias = ReadFloats(*bias, cpu::RoundUpToPanel(size));
  return norm;
}

size_t LayerBytes(const LayerTensors& layer) {
  size_t bytes = 0;
  for (const LinearView* part :
       {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
    if (part->weight != nullptr) bytes += part->weight->bytes;
  }
  return bytes;
}

}  // namespace

DecoderWeights::DecoderWeights(const DecoderSpec& spec, const DecoderTensors& tensors, Dtype dtype,
                               const std::function<void(int64_t, int64_t)>& progress,
                               Offload offload)
    : offload_(std::move(offload)),
      hidden_(spec.hidden_size),
      dtype_(dtype),
      embedding_scale_(static_cast<float>(spec.embedding_scale)),
      position_offset_(spec.position_offset) {
  size_t total = tensors.output->bytes;
  if (!spec.tied_embeddings) total += tensors.embedding->bytes;
  for (const LayerTensors& view : tensors.layers) total += LayerBytes(view);
  size_t done = 0;
  for (const LayerTensors& view : tensors.layers) {
    DecoderLayer layer;
    const bool in_file = offload_.layer(static_cast<int>(layers_.size()));
    const Place place = in_file ? Place::kFile : Place::kMemory;
    layer.attention_norm = ReadNorm(spec, view.attention_norm, view.attention_norm_bias);
    layer.q_norm = ReadNorm(spec, view.q_norm);
    layer.k_norm = ReadNorm(spec, view.k_norm);
    layer.post_attention_norm = ReadNorm(spec, view.post_attention_norm);
    layer.post_mlp_norm = ReadNorm(spec, view.post_mlp_norm);
    layer.qkv = PackConcatenated(dtype, {view.q, view.k, view.v}, place);
    layer.o = PackConcatenated(dtype, {view.o}, place);
    layer.mlp_norm = ReadNorm(spec, view.mlp_norm, view.mlp_norm_bias);
    layer.gate_up = spec.gated_mlp ? PackGateUp(dtype, view.gate, view.up, place)
                                   : PackConcatenated(dtype, {view.up}, place);
    layer.down = PackConcatenated(dtype, {view.down}, place);
    LeaveInFile(in_file ? std::vector{view.q.weight, view.k.weight, view.v.weight, view.o.weight,
                                      view.gate.weight, view.up.weight, view.down.weight}
                        : std::vector<const TensorView*>{});
    Count(layer);
    layers_.push_back(std::move(layer));
    done += LayerBytes(view);
    if (progress) progress(static_cast<int64_t>(done), static_cast<int64_t>(total));
  }
  final_norm_ = ReadNorm(spec, tensors.final_norm, tensors.final_norm_bias);
  Count(final_norm_);
  if (tensors.positions != nullptr) {
    const auto& shape = tensors.positions->shape;
    positions_ = ReadFloats(*tensors.positions, static_cast<size_t>(shape[0] * shape[1]));
    bytes_ += static_cast<int64_t>(positions_.bytes());
  }
  output_ = PackConcatenated(OutputDtype(dtype),
                             {LinearView{tensors.output, nullptr, tensors.output_scale}},
                             offload_.output ? Place::kFile : Place::kMemory);
  output_tokens_ = tensors.output_tokens;
  LeaveInFile(offload_.output ? std::vector{tensors.output} : std::vector<const TensorView*>{});
  Count(output_);
  if (!spec.tied_embeddings) {
    HoldEmbedding(*tensors.embedding, dtype);
  }
  if (progress) progress(static_cast<int64_t>(total), static_cast<int64_t>(total));
}

void DecoderWeights::Embed(uint32_t token, int position, float* out) const {
  if (embedding_data_ == nullptr) {
    output_.matrix.ReadColumn(static_cast<int>(token), out);
  } else {
    const int64_t first = static_cast<int64_t>(token) * hidden_;
    for (int i = 0; i < hidden_; ++i) {
      out[i] = cpu::ReadValue(embedding_data_, embedding_type_, first + i);
    }
  }
  if (embedding_scale_ != 1.0f) {
    for (int i = 0; i < hidden_; ++i) out[i] *= embedding_scale_;
  }
  if (positions_.bytes() == 0) return;
  const float* row =
      positions_.floats() + static_cast<size_t>(position + position_offset_) * hidden_;
  for (int i = 0; i < hidden_; ++i) out[i] += row[i];
}

void DecoderWeights::HoldEmbedding(const TensorView& view, Dtype dtype) {
  const SourceType type = SourceTypeOf(view);
  embedding_type_ = type;
  embedding_data_ = view.data;
  if (offload_.output) return;
  if (cpu::IsBlocks(type) && dtype != Dtype::kFloat32 && dtype != Dtype::kBfloat16 &&
      dtype != Dtype::kFloat16) {
    embedding_ = cpu::Buffer(view.bytes);
    std::memcpy(embedding_.data(), view.data, view.bytes);
    embedding_data_ = embedding_.data();
    bytes_ += static_cast<int64_t>(embedding_.bytes());
    return;
  }
  if (dtype == Dtype::kFloat32) embedding_type_ = SourceType::kFloat32;
  if (dtype == Dtype::kBfloat16) embedding_type_ = SourceType::kBfloat16;
  if (dtype == Dtype::kFloat16) embedding_type_ = SourceType::kFloat16;
  const int64_t count = view.shape[0] * view.shape[1];
  embedding_ = cpu::Buffer(count * (embedding_type_ == SourceType::kFloat32 ? 4 : 2));
  embedding_data_ = embedding_.data();
  bytes_ += static_cast<int64_t>(embedding_.bytes());
  if (embedding_type_ == type) {
    std::memcpy(embedding_.data(), view.data, view.bytes);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const float value = cpu::ReadValue(view.data, type, i);
    if (embedding_type_ == SourceType::kFloat32) {
      embedding_.floats()[i] = value;
      continue;
    }
    const bool bf16 = embedding_type_ == SourceType::kBfloat16;
    const uint16_t half = bf16 ? cpu::ToBfloat16(value) : cpu::ToFloat16(value);
    static_cast<uint16_t*>(embedding_.data())[i] = half;
    exact_ = exact_ && cpu::ReadValue(&half, embedding_type_, 0) == value;
  }
}

void DecoderWeights::LeaveInFile(const std::vector<const TensorView*>& views) {
  std::vector<TensorView>& left = ahead_.emplace_back();
  for (const TensorView* view : views) {
    if (view == nullptr) continue;
    left.push_back(*view);
    file_bytes_ += static_cast<int64_t>(view->bytes);
  }
}

void DecoderWeights::ReadAhead(int layer) const {
  if (layer >= static_cast<int>(ahead_.size())) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGE_SIZE));
  for (const TensorView& view : ahead_[layer]) {
    const auto begin = reinterpret_cast<uintptr_t>(view.data) / page * page;
    const auto end = reinterpret_cast<uintptr_t>(view.data) + view.bytes;
    // Advice only: without it everything works, and waits for the disk. What was used is taken back
    // first, and not what was read ahead and is not used yet.
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_SEQUENTIAL);
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);
  }
}

void DecoderWeights::Count(const DecoderLayer& layer) {
  for (const PackedLinear* linear : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down}) {
    Count(*linear);
  }
  for (const NormWeights* norm :
       {&layer.attention_norm, &layer.q_norm, &layer.k_norm, &layer.post_attention_norm,
        &layer.mlp_norm, &layer.post_mlp_norm}) {
    Count(*norm);
  }
}

void DecoderWeights::Count(const NormWeights& norm) {
  bytes_ += static_cast<int64_t>(norm.weight.bytes() + norm.bias.bytes());
}

void DecoderWeights::Count(const PackedLinear& linear) {
  exact_ = exact_ && linear.matrix.exact();
  int8_ = int8_ || linear.matrix.type() == cpu::WeightType::kInt8;
  grouped_ = grouped_ || cpu::IsGrouped(linear.matrix.type());
  bytes_ += static_cast<int64_t>(linear.matrix.bytes() + linear.bias.bytes());
}

}  // namespace tandem::model
