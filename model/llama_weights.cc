#include "model/llama_weights.h"

#include <cstring>

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

PackedLinear Pack(int columns, int k, const std::vector<LinearView>& parts,
                  const std::function<Column(int)>& column) {
  bool all_bf16 = true;
  for (const LinearView& part : parts) {
    all_bf16 = all_bf16 && TypeOf(*part.weight) == SourceType::kBfloat16;
  }
  PackedLinear linear;
  linear.matrix =
      PackedMatrix(columns, k, all_bf16 ? WeightType::kBfloat16 : WeightType::kFloat32, [&](int c) {
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
PackedLinear PackConcatenated(const std::vector<LinearView>& parts) {
  int columns = 0;
  for (const LinearView& part : parts) columns += static_cast<int>(part.weight->shape[0]);
  const int k = static_cast<int>(parts[0].weight->shape[1]);
  return Pack(columns, k, parts, [&](int c) {
    int64_t row = c;
    for (const LinearView& part : parts) {
      if (row < part.weight->shape[0]) return Column{&part, row};
      row -= part.weight->shape[0];
    }
    return Column{};
  });
}

PackedLinear PackGateUp(const LinearView& gate, const LinearView& up) {
  const int64_t size = gate.weight->shape[0];
  const int panels = static_cast<int>((size + cpu::kLanes - 1) / cpu::kLanes);
  const std::vector<LinearView> parts = {gate, up};
  return Pack(panels * cpu::kPanelColumns, static_cast<int>(gate.weight->shape[1]), parts,
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

size_t LayerBytes(const LlamaLayerViews& layer) {
  size_t bytes = 0;
  for (const LinearView* part :
       {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
    bytes += part->weight->bytes;
  }
  return bytes;
}

}  // namespace

LlamaWeights::LlamaWeights(const LlamaConfig& config, const LlamaViews& views,
                           const std::function<void(int64_t, int64_t)>& progress)
    : hidden_(config.hidden_size) {
  size_t total = views.output->bytes;
  for (const LlamaLayerViews& view : views.layers) total += LayerBytes(view);
  size_t done = 0;
  for (const LlamaLayerViews& view : views.layers) {
    LlamaLayer layer;
    layer.attention_norm = ReadNorm(*view.attention_norm);
    layer.qkv = PackConcatenated({view.q, view.k, view.v});
    layer.o = PackConcatenated({view.o});
    layer.feed_forward_norm = ReadNorm(*view.feed_forward_norm);
    layer.gate_up = PackGateUp(view.gate, view.up);
    layer.down = PackConcatenated({view.down});
    layers_.push_back(std::move(layer));
    done += LayerBytes(view);
    if (progress) progress(static_cast<int64_t>(done), static_cast<int64_t>(total));
  }
  final_norm_ = ReadNorm(*views.final_norm);
  output_ = PackConcatenated({LinearView{views.output, nullptr}});
  if (!config.tied_embeddings) {
    embedding_ = cpu::Buffer(views.embedding->bytes);
    embedding_type_ = TypeOf(*views.embedding);
    std::memcpy(embedding_.data(), views.embedding->data, views.embedding->bytes);
  }
  if (progress) progress(static_cast<int64_t>(total), static_cast<int64_t>(total));
}

void LlamaWeights::Embed(uint32_t token, float* out) const {
  if (embedding_.bytes() == 0) {
    output_.matrix.ReadColumn(static_cast<int>(token), out);
    return;
  }
  const int64_t first = static_cast<int64_t>(token) * hidden_;
  for (int i = 0; i < hidden_; ++i) {
    out[i] = cpu::ReadValue(embedding_.data(), embedding_type_, first + i);
  }
}

}  // namespace tandem::model
