#include "model/decoder_weights.h"

#include <cstring>
#include <utility>

#include "model/cpu/half.h"

namespace tandem::model {
namespace {

using cpu::SourceType;

cpu::Buffer ReadNorm(const TensorView& view) {
  const int size = static_cast<int>(view.shape[0]);
  cpu::Buffer norm = cpu::FloatBuffer(cpu::RoundUpToPanel(size));
  const SourceType type = SourceTypeOf(view);
  for (int i = 0; i < size; ++i) norm.floats()[i] = cpu::ReadValue(view.data, type, i);
  return norm;
}

size_t LayerBytes(const LayerTensors& layer) {
  size_t bytes = 0;
  for (const LinearView* part :
       {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
    bytes += part->weight->bytes;
  }
  return bytes;
}

}  // namespace

DecoderWeights::DecoderWeights(const DecoderSpec& spec, const DecoderTensors& tensors, Dtype dtype,
                               const std::function<void(int64_t, int64_t)>& progress)
    : hidden_(spec.hidden_size), dtype_(dtype) {
  size_t total = tensors.output->bytes;
  if (!spec.tied_embeddings) total += tensors.embedding->bytes;
  for (const LayerTensors& view : tensors.layers) total += LayerBytes(view);
  size_t done = 0;
  for (const LayerTensors& view : tensors.layers) {
    DecoderLayer layer;
    layer.attention_norm = ReadNorm(*view.attention_norm);
    layer.qkv = PackConcatenated(dtype, {view.q, view.k, view.v});
    layer.o = PackConcatenated(dtype, {view.o});
    layer.mlp_norm = ReadNorm(*view.mlp_norm);
    layer.gate_up = PackGateUp(dtype, view.gate, view.up);
    layer.down = PackConcatenated(dtype, {view.down});
    Count(layer);
    layers_.push_back(std::move(layer));
    done += LayerBytes(view);
    if (progress) progress(static_cast<int64_t>(done), static_cast<int64_t>(total));
  }
  final_norm_ = ReadNorm(*tensors.final_norm);
  bytes_ += static_cast<int64_t>(final_norm_.bytes());
  output_ = PackConcatenated(dtype, {LinearView{tensors.output, nullptr}});
  Count(output_);
  if (!spec.tied_embeddings) {
    HoldEmbedding(*tensors.embedding, dtype);
  }
  if (progress) progress(static_cast<int64_t>(total), static_cast<int64_t>(total));
}

void DecoderWeights::Embed(uint32_t token, float* out) const {
  if (embedding_.bytes() == 0) {
    output_.matrix.ReadColumn(static_cast<int>(token), out);
    return;
  }
  const int64_t first = static_cast<int64_t>(token) * hidden_;
  for (int i = 0; i < hidden_; ++i) {
    out[i] = cpu::ReadValue(embedding_.data(), embedding_type_, first + i);
  }
}

void DecoderWeights::HoldEmbedding(const TensorView& view, Dtype dtype) {
  const SourceType type = SourceTypeOf(view);
  embedding_type_ = type;
  if (dtype == Dtype::kFloat32) embedding_type_ = SourceType::kFloat32;
  if (dtype == Dtype::kBfloat16) embedding_type_ = SourceType::kBfloat16;
  if (dtype == Dtype::kFloat16) embedding_type_ = SourceType::kFloat16;
  const int64_t count = view.shape[0] * view.shape[1];
  embedding_ = cpu::Buffer(count * (embedding_type_ == SourceType::kFloat32 ? 4 : 2));
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

void DecoderWeights::Count(const DecoderLayer& layer) {
  for (const PackedLinear* linear : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down}) {
    Count(*linear);
  }
  bytes_ += static_cast<int64_t>(layer.attention_norm.bytes() + layer.mlp_norm.bytes());
}

void DecoderWeights::Count(const PackedLinear& linear) {
  exact_ = exact_ && linear.matrix.exact();
  bytes_ += static_cast<int64_t>(linear.matrix.bytes() + linear.bias.bytes());
}

}  // namespace tandem::model
