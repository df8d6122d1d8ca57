#include "model/cpu/packed_matrix.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "model/cpu/half.h"

namespace tandem::model::cpu {
namespace {

uint16_t ReadHalf(const void* row, int64_t index) {
  uint16_t bits;
  std::memcpy(&bits, static_cast<const char*>(row) + index * 2, sizeof(bits));
  return bits;
}

// Where a column's 16-bit value lies among the 32 of one k. bf16: word j holds columns j (its lower
// half, which is first in memory) and j + 16.
int HalfOf(WeightType type, int lane) {
  if (type == WeightType::kFloat16) return lane;
  return lane < kLanes ? 2 * lane : 2 * (lane - kLanes) + 1;
}

}  // namespace

float ReadValue(const void* row, SourceType type, int64_t index) {
  switch (type) {
    case SourceType::kBfloat16:
      return FromBfloat16(ReadHalf(row, index));
    case SourceType::kFloat16:
      return FromFloat16(ReadHalf(row, index));
    case SourceType::kFloat32:
      break;
  }
  float value;
  std::memcpy(&value, static_cast<const char*>(row) + index * 4, sizeof(value));
  return value;
}

PackedMatrix::PackedMatrix(int columns, int k, WeightType type,
                           const std::function<SourceRow(int)>& row)
    : columns_(columns),
      k_(k),
      panels_(RoundUpToPanel(columns) / kPanelColumns),
      type_(type),
      data_(panels_ * panel_words() * sizeof(uint32_t)),
      scales_(type == WeightType::kInt8 ? FloatBuffer(static_cast<size_t>(panels_) * kPanelColumns)
                                        : Buffer()) {
  for (int column = 0; column < columns; ++column) {
    SourceRow source = row(column);
    if (source.data == nullptr) continue;
    if (type == WeightType::kInt8) {
      StoreInt8(column, source);
      continue;
    }
    uint32_t* panel = static_cast<uint32_t*>(data_.data()) + column / kPanelColumns * panel_words();
    const int lane = column % kPanelColumns;
    if (type == WeightType::kFloat32) {
      for (int i = 0; i < k; ++i) {
        float value = ReadValue(source.data, source.type, i);
        std::memcpy(panel + static_cast<size_t>(i) * 32 + lane, &value, sizeof(value));
      }
      continue;
    }
    uint16_t* halves = reinterpret_cast<uint16_t*>(panel) + HalfOf(type, lane);
    for (int i = 0; i < k; ++i) halves[static_cast<size_t>(i) * 32] = StoredHalf(source, i);
  }
}

int8_t* PackedMatrix::Int8At(int column, int index) {
  int8_t* panel = static_cast<int8_t*>(data_.data()) +
                  column / kPanelColumns * panel_words() * sizeof(uint32_t);
  const size_t group = static_cast<size_t>(index / kInt8Group);
  return panel + (group * kPanelColumns + column % kPanelColumns) * kInt8Group + index % kInt8Group;
}

void PackedMatrix::StoreInt8(int column, const SourceRow& source) {
  std::vector<float> values(k_);
  for (int i = 0; i < k_; ++i) values[i] = ReadValue(source.data, source.type, i);
  const Int8Scale of = ScaleOf(values.data(), k_);
  scales_.floats()[column] = of.scale;
  for (int i = 0; i < k_; ++i) {
    const int8_t stored = ToInt8(values[i], of.inverse);
    *Int8At(column, i) = stored;
    exact_ = exact_ && static_cast<float>(stored) * of.scale == values[i];
  }
}

uint16_t PackedMatrix::StoredHalf(const SourceRow& source, int64_t index) {
  const SourceType same =
      type_ == WeightType::kBfloat16 ? SourceType::kBfloat16 : SourceType::kFloat16;
  if (source.type == same) return ReadHalf(source.data, index);
  const float value = ReadValue(source.data, source.type, index);
  const bool bf16 = type_ == WeightType::kBfloat16;
  const uint16_t half = bf16 ? ToBfloat16(value) : ToFloat16(value);
  exact_ = exact_ && (bf16 ? FromBfloat16(half) : FromFloat16(half)) == value;
  return half;
}

void PackedMatrix::ReadColumn(int column, float* out) const {
  if (type_ == WeightType::kInt8) {
    const float scale = scales_.floats()[column];
    for (int i = 0; i < k_; ++i) out[i] = static_cast<float>(*Int8At(column, i)) * scale;
    return;
  }
  const uint32_t* panel =
      static_cast<const uint32_t*>(data_.data()) + column / kPanelColumns * panel_words();
  const int lane = column % kPanelColumns;
  if (type_ == WeightType::kFloat32) {
    for (int i = 0; i < k_; ++i) out[i] = FloatFromBits(panel[static_cast<size_t>(i) * 32 + lane]);
    return;
  }
  const uint16_t* halves = reinterpret_cast<const uint16_t*>(panel) + HalfOf(type_, lane);
  for (int i = 0; i < k_; ++i) {
    const uint16_t half = halves[static_cast<size_t>(i) * 32];
    out[i] = type_ == WeightType::kBfloat16 ? FromBfloat16(half) : FromFloat16(half);
  }
}

MultiplyArgs PackedMatrix::Args(int first, int count, Epilogue epilogue, const float* bias,
                                float* out, size_t out_stride, int out_columns) const {
  const int width = epilogue == Epilogue::kSwiGlu ? kLanes : kPanelColumns;
  MultiplyArgs args;
  args.k = k_;
  args.panels = static_cast<const uint32_t*>(data_.data()) + first * panel_words();
  args.panel_words = panel_words();
  args.panel_count = count;
  args.type = type_;
  args.epilogue = epilogue;
  args.bias = bias == nullptr ? nullptr : bias + first * kPanelColumns;
  args.out = out + first * width;
  args.out_stride = out_stride;
  args.out_columns = std::max(0, std::min(out_columns - first * width, count * width));
  return args;
}

void PackedMatrix::Multiply(const Kernels& kernels, const float* x, size_t x_stride, int rows,
                            int first, int count, Epilogue epilogue, const float* bias, float* out,
                            size_t out_stride, int out_columns) const {
  MultiplyArgs args = Args(first, count, epilogue, bias, out, out_stride, out_columns);
  args.x = x;
  args.x_stride = x_stride;
  args.rows = rows;
  kernels.multiply(args);
}

void PackedMatrix::MultiplyInt8(const Kernels& kernels, const QuantizedRows& x, int rows, int first,
                                int count, Epilogue epilogue, const float* bias, float* out,
                                size_t out_stride, int out_columns) const {
  const MultiplyArgs args = Args(first, count, epilogue, bias, out, out_stride, out_columns);
  const int blocks = (rows + kMaxInt8Rows - 1) / kMaxInt8Rows;
  // Weights come from memory once: a panel meets all rows before the next panel.
  for (int panel = 0; panel < count; ++panel) {
    const auto* weights =
        static_cast<const int8_t*>(args.panels) + panel * args.panel_words * sizeof(uint32_t);
    const float* scales = scales_.floats() + static_cast<size_t>(first + panel) * kPanelColumns;
    for (int b = 0; b < blocks; ++b) {
      const int begin = static_cast<int>(int64_t{rows} * b / blocks);
      const int end = static_cast<int>(int64_t{rows} * (b + 1) / blocks);
      int32_t sums[kMaxInt8Rows][kPanelColumns];
      kernels.int8->multiply(x.row(begin), x.stride(), x.sums() + begin, end - begin,
                             Int8Groups(k_), weights, sums);
      for (int row = begin; row < end; ++row) {
        float products[kPanelColumns];
        const float scale = x.scales()[row];
        for (int i = 0; i < kPanelColumns; ++i) {
          products[i] = static_cast<float>(sums[row - begin][i]) * scale * scales[i];
        }
        kernels.finish(args, row, panel, products);
      }
    }
  }
}

}  // namespace tandem::model::cpu
