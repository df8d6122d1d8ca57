#include "model/decoder_weights.h"

#include <cstring>
#include <utility>

#include "model/cpu/half.h"

namespace tandem::model {
namespace {

using cpu::PackedMatrix;
using cpu::SourceRow;
using cpu::SourceType;
using cpu::WeightType;

SourceType TypeOf(const TensorView& view) {
  if (view.dtype == "BF16") return SourceType::kBfloat16;
  return view.dtype == "F16" ? SourceType::kFloat16 : SourceType::kFloat32;
}

SourceRow RowOf(const TensorView& view, int64_t row) {
  const size_t row_bytes = view.bytes / view.shape[0];
  return {static_cast<const char*>(view.data) + row * row_bytes, TypeOf(view)};
}

// Which row of which part an output column is; part null: a column of zeros.
struct Column {
  const LinearView* part = nullptr;
  int64_t row = 0;
};

// What a matrix made of these parts is held as. Parts of different types have fp32 in common.
WeightType HeldAs(Dtype dtype, const std::vector<LinearView>& parts) {
  if (dtype == Dtype::kFloat32) return WeightType::kFloat32;
  if (dtype == Dtype::kBfloat16) return WeightType::kBfloat16;
  const SourceType type = TypeOf(*parts[0].weight);
  for (const LinearView& part : parts) {
    if (TypeOf(*part.weight) != type) return WeightType::kFloat32;
  }
  if (type == SourceType::kBfloat16) return WeightType::kBfloat16;
  return type == SourceType::kFloat16 ? WeightType::kFloat16 : WeightType::kFloat32;
}

PackedLinear Pack(int columns, int k, Dtype dtype, const std::vector<LinearView>& parts,
                  const std::function<Column(int)>& column) {
  PackedLinear linear;
  linear.matrix = PackedMatrix(columns, k, HeldAs(dtype, parts), [&](int c) {
    Column from = column(c);
    return from.part == nullptr ? SourceRow{} : RowOf(*from.part->weight, from.row);
  });
  if (parts[0].bias == nullptr) return linear;
  linear.bias = cpu::FloatBuffer(cpu::RoundUpToPanel(columns));
  for (int c = 0; c < columns; ++c) {
    Column from = column(c);
    if (from.part == nullptr) continue;
    const TensorView& bias = *from.part->bias;
    linear.bias.floats()[c] = cpu::ReadValue(bias.data, TypeOf(bias), from.row);
  }
  return linear;
}

// The parts' outputs one after the other.
PackedLinear PackConcatenated(Dtype dtype, const std::vector<LinearView>& parts) {
  int columns = 0;
  for (const LinearView& part : parts) columns += static_cast<int>(part.weight->shape[0]);
  const int k = static_cast<int>(parts[0].weight->shape[1]);
  return Pack(columns, k, dtype, parts, [&](int c) {
    int64_t row = c;
    for (const LinearView& part : parts) {
      if (row < part.weight->shape[0]) return Column{&part, row};
      row -= part.weight->shape[0];
    }
    return Column{};
  });
}

PackedLinear PackGateUp(Dtype dtype, const LinearView& gate, const LinearView& up) {
  const int64_t size = gate.weight->shape[0];
  const int panels = static_cast<int>((size + cpu::kLanes - 1) / cpu::kLanes);
  const std::vector<LinearView> parts = {gate, up};
  return Pack(panels * cpu::kPanelColumns, static_cast<int>(gate.weight->shape[1]), dtype, parts,
              [&](int c) {
                const int64_t row = c / cpu::kPanelColumns * cpu::kLanes + c % cpu::kLanes;
                if (row >= size) return Column{};
                return Column{&parts[c % cpu::kPanelColumns < cpu::kLanes ? 0 : 1], row};
              });
}

cpu::Buffer ReadNorm(const TensorView& view) {
  const int size = static_cast<int>(view.shape[0]);
  cpu::Buffer norm = cpu::FloatBuffer(cpu::RoundUpToPanel(size));
  for (int i = 0; i < size; ++i) norm.floats()[i] = cpu::ReadValue(view.data, TypeOf(view), i);
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
    : hidden_(spec.hidden_size) {
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
  const SourceType type = TypeOf(view);
  embedding_type_ = type;
  if (dtype == Dtype::kFloat32) embedding_type_ = SourceType::kFloat32;
  if (dtype == Dtype::kBfloat16) embedding_type_ = SourceType::kBfloat16;
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
    const uint16_t half = cpu::ToBfloat16(value);
    static_cast<uint16_t*>(embedding_.data())[i] = half;
    exact_ = exact_ && cpu::FromBfloat16(half) == value;
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
