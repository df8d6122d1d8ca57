#include "model/packed_linear.h"

#include <algorithm>
#include <functional>

#include "model/cpu/pack_groups.h"
#include "model/files/packed_tensor.h"
#include "model/files/tensor_type.h"

namespace tandem::model {

using cpu::PackedMatrix;
using cpu::SourceRow;
using cpu::SourceType;
using cpu::WeightType;

namespace {

SourceRow RowOf(const LinearView& part, int64_t row) {
  const TensorView& view = *part.weight;
  const size_t row_bytes = view.bytes / view.shape[0];
  SourceRow source{static_cast<const char*>(view.data) + row * row_bytes, SourceTypeOf(view)};
  if (part.scale != nullptr) {
    source.scale = cpu::ReadValue(part.scale->data, SourceTypeOf(*part.scale), row);
  }
  return source;
}

// Parts of a matrix, and of those that are packed the blocks, while it is made.
class WithData {
 public:
  explicit WithData(const std::vector<LinearView>& parts) : parts_(parts) {
    views_.reserve(parts.size());
    for (LinearView& part : parts_) {
      if (part.weight->packed == nullptr) continue;
      blocks_.push_back(Unpack(*part.weight));
      TensorView& view = views_.emplace_back(*part.weight);
      view.data = blocks_.back().data();
      part.weight = &view;
    }
  }
  const std::vector<LinearView>& parts() const { return parts_; }

 private:
  std::vector<LinearView> parts_;
  std::vector<TensorView> views_;
  std::vector<cpu::Buffer> blocks_;
};

// Which row of which part an output column is; part below 0: a column of zeros.
struct Column {
  int part = -1;
  int64_t row = 0;
};

// A matrix in the file keeps `parts` and `column`.
PackedLinear Pack(int columns, int k, Dtype dtype, const std::vector<LinearView>& given,
                  const std::function<Column(int)>& column, Place place) {
  PackedLinear linear;
  const WithData with_data(given);
  const std::vector<LinearView>& parts = with_data.parts();
  const auto row = [parts, column](int c) {
    const Column from = column(c);
    return from.part < 0 ? SourceRow{} : RowOf(parts[from.part], from.row);
  };
  linear.matrix = PackedMatrix(columns, k, HeldAs(dtype, parts), row, place);
  if (parts[0].bias == nullptr) return linear;
  linear.bias = cpu::FloatBuffer(cpu::RoundUpToPanel(columns));
  for (int c = 0; c < columns; ++c) {
    Column from = column(c);
    if (from.part < 0) continue;
    const TensorView& bias = *parts[from.part].bias;
    linear.bias.floats()[c] = cpu::ReadValue(bias.data, SourceTypeOf(bias), from.row);
  }
  return linear;
}

}  // namespace

WeightType HeldAs(Dtype dtype, const std::vector<LinearView>& parts) {
  if (SourceTypeOf(*parts[0].weight) == SourceType::kInt8) return WeightType::kInt8;
  if (dtype == Dtype::kFloat32) return WeightType::kFloat32;
  if (dtype == Dtype::kBfloat16) return WeightType::kBfloat16;
  if (dtype == Dtype::kFloat16) return WeightType::kFloat16;
  if (dtype == Dtype::kInt8) return WeightType::kInt8Grouped;
  if (dtype == Dtype::kInt4) return WeightType::kInt4;
  if (dtype == Dtype::kInt8ByRow) return WeightType::kInt8;
  if (std::all_of(parts.begin(), parts.end(), [](const LinearView& part) {
        return cpu::IsBlocks(SourceTypeOf(*part.weight));
      })) {
    return WeightType::kInt8Grouped;
  }
  const SourceType type = SourceTypeOf(*parts[0].weight);
  for (const LinearView& part : parts) {
    if (SourceTypeOf(*part.weight) != type) return WeightType::kFloat32;
  }
  if (type == SourceType::kBfloat16) return WeightType::kBfloat16;
  return type == SourceType::kFloat16 ? WeightType::kFloat16 : WeightType::kFloat32;
}

bool HasBlocks(const DecoderTensors& tensors) {
  const auto is_blocks = [](const TensorView* view) {
    return view != nullptr && cpu::IsBlocks(SourceTypeOf(*view));
  };
  if (is_blocks(tensors.output)) return true;
  for (const LayerTensors& layer : tensors.layers) {
    for (const LinearView* part :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      if (is_blocks(part->weight)) return true;
    }
  }
  return false;
}

bool RoundsNothing(Dtype dtype, const std::vector<LinearView>& parts) {
  const WeightType held = HeldAs(dtype, parts);
  return held == WeightType::kFloat32 ||
         std::all_of(parts.begin(), parts.end(), [held, &parts](const LinearView& part) {
           const SourceType type = SourceTypeOf(*part.weight);
           if (cpu::IsGrouped(held)) {
             return type == SourceTypeOf(*parts[0].weight) && cpu::KeepsValues(type, held);
           }
           return (held == WeightType::kBfloat16 && type == SourceType::kBfloat16) ||
                  (held == WeightType::kFloat16 && type == SourceType::kFloat16) ||
                  (held == WeightType::kInt8 && type == SourceType::kInt8);
         });
}

PackedLinear PackConcatenated(Dtype dtype, const std::vector<LinearView>& parts, Place place) {
  int columns = 0;
  for (const LinearView& part : parts) columns += static_cast<int>(part.weight->shape[0]);
  const int k = static_cast<int>(parts[0].weight->shape[1]);
  std::vector<int64_t> rows;
  rows.reserve(parts.size());
  for (const LinearView& part : parts) rows.push_back(part.weight->shape[0]);
  const auto column = [rows](int c) {
    int64_t row = c;
    for (size_t part = 0; part < rows.size(); ++part) {
      if (row < rows[part]) return Column{static_cast<int>(part), row};
      row -= rows[part];
    }
    return Column{};
  };
  return Pack(columns, k, dtype, parts, column, place);
}

PackedLinear PackGateUp(Dtype dtype, const LinearView& gate, const LinearView& up, Place place) {
  const int64_t size = gate.weight->shape[0];
  const int panels = static_cast<int>((size + cpu::kLanes - 1) / cpu::kLanes);
  const std::vector<LinearView> parts = {gate, up};
  const auto column = [size](int c) {
    const int64_t row = c / cpu::kPanelColumns * cpu::kLanes + c % cpu::kLanes;
    if (row >= size) return Column{};
    return Column{c % cpu::kPanelColumns < cpu::kLanes ? 0 : 1, row};
  };
  return Pack(panels * cpu::kPanelColumns, static_cast<int>(gate.weight->shape[1]), dtype, parts,
              column, place);
}

}  // namespace tandem::model
