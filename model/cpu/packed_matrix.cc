#include "model/cpu/packed_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tandem::model::cpu {
namespace {

float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

uint16_t ReadHalf(const void* row, int64_t index) {
  uint16_t bits;
  std::memcpy(&bits, static_cast<const char*>(row) + index * 2, sizeof(bits));
  return bits;
}

float FromFloat16(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const uint32_t mantissa = bits & 1023u;
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  if (exponent == 31) return FromBits(sign | 0x7f800000u | mantissa << 13);
  if (exponent > 0)
    return FromBits(sign | static_cast<uint32_t>(exponent + 112) << 23 | mantissa << 13);
  const float value = std::ldexp(static_cast<float>(mantissa), -24);
  return sign != 0 ? -value : value;
}

}  // namespace

float ReadValue(const void* row, SourceType type, int64_t index) {
  switch (type) {
    case SourceType::kBfloat16:
      return FromBits(static_cast<uint32_t>(ReadHalf(row, index)) << 16);
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
    } else {
      const int shift = lane < kLanes ? 0 : 16;
      for (int i = 0; i < k; ++i) {
        panel[static_cast<size_t>(i) * 16 + lane % kLanes] |=
            static_cast<uint32_t>(ReadHalf(source.data, i)) << shift;
      }
    }
  }
}

void PackedMatrix::ReadColumn(int column, float* out) const {
  const uint32_t* panel =
      static_cast<const uint32_t*>(data_.data()) + column / kPanelColumns * panel_words();
  const int lane = column % kPanelColumns;
  for (int i = 0; i < k_; ++i) {
    if (type_ == WeightType::kFloat32) {
      out[i] = FromBits(panel[static_cast<size_t>(i) * 32 + lane]);
    } else {
      uint32_t word = panel[static_cast<size_t>(i) * 16 + lane % kLanes];
      out[i] = FromBits(lane < kLanes ? word << 16 : word & 0xffff0000u);
    }
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
