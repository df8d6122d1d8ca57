#include "model/packed_linear.h"

#include <functional>

namespace tandem::model {

using cpu::PackedMatrix;
using cpu::SourceRow;
using cpu::SourceType;
using cpu::WeightType;

SourceType SourceTypeOf(const TensorView& view) {
  if (view.dtype == "BF16") return SourceType::kBfloat16;
  return view.dtype == "F16" ? SourceType::kFloat16 : SourceType::kFloat32;
}

namespace {

SourceRow RowOf(const TensorView& view, int64_t row) {
  const size_t row_bytes = view.bytes / view.shape[0];
  return {static_cast<const char*>(view.data) + row * row_bytes, SourceTypeOf(view)};
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
  if (dtype == Dtype::kFloat16) return WeightType::kFloat16;
  if (dtype == Dtype::kInt8) return WeightType::kInt8;
  const SourceType type = SourceTypeOf(*parts[0].weight);
  for (const LinearView& part : parts) {
    if (SourceTypeOf(*part.weight) != type) return WeightType::kFloat32;
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
    linear.bias.floats()[c] = cpu::ReadValue(bias.data, SourceTypeOf(bias), from.row);
  }
  return linear;
}

}  // namespace

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

}  // namespace tandem::model
