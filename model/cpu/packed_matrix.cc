#include "model/cpu/packed_matrix.h"

#include <algorithm>
#include <cstring>

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
      data_(panels_ * panel_words() * sizeof(uint32_t)) {
  for (int column = 0; column < columns; ++column) {
    SourceRow source = row(column);
    if (source.data == nullptr) continue;
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

uint16_t PackedMatrix::StoredHalf(const SourceRow& source, int64_t index) {
  const SourceType same =
      type_ == WeightType::kBfloat16 ? SourceType::kBfloat16 : SourceType::kFloat16;
  if (source.type == same) return ReadHalf(source.data, index);
  const float value = ReadValue(source.data, source.type, index);
  const uint16_t half = ToBfloat16(value);
  exact_ = exact_ && FromBfloat16(half) == value;
  return half;
}

void PackedMatrix::ReadColumn(int column, float* out) const {
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

void PackedMatrix::Multiply(const Kernels& kernels, const float* x, size_t x_stride, int rows,
                            int first, int count, Epilogue epilogue, const float* bias, float* out,
                            size_t out_stride, int out_columns) const {
  const int width = epilogue == Epilogue::kSwiGlu ? kLanes : kPanelColumns;
  MultiplyArgs args;
  args.x = x;
  args.x_stride = x_stride;
  args.rows = rows;
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
  kernels.multiply(args);
}

}  // namespace tandem::model::cpu
