// The definition of the arithmetic, how weights are rounded, and the kernels for any machine.
#include "model/cpu/grouped.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/cpu/half.h"
#include "model/cpu/int8.h"

namespace tandem::model::cpu {
namespace {

float ReadScale(ScaleType type, const uint8_t* scales, int column) {
  if (type == ScaleType::kFloat16) {
    uint16_t half;
    std::memcpy(&half, scales + column * sizeof(half), sizeof(half));
    return FromFloat16(half);
  }
  float scale;
  std::memcpy(&scale, scales + column * sizeof(scale), sizeof(scale));
  return scale;
}

void WriteScale(ScaleType type, float scale, int column, uint8_t* scales) {
  if (type == ScaleType::kFloat16) {
    const uint16_t half = ToFloat16(scale);
    std::memcpy(scales + column * sizeof(half), &half, sizeof(half));
    return;
  }
  std::memcpy(scales + column * sizeof(scale), &scale, sizeof(scale));
}

// Where an input's integer lies among those of its group.
int PlaceOf(Integers integers, int column, int index) {
  const int four = index / kInt8Group;
  const int at = integers == Integers::kInt8 ? four : four / 2;
  return (at * 32 + column) * kInt8Group + index % kInt8Group;
}

float RoundedToHalf(float value) { return FromFloat16(ToFloat16(value)); }

// To the nearest integer, ties to even, of what is small: as ToInt8, without a call.
float Rounded(float value) { return (value + 12582912.0f) - 12582912.0f; }

// The nearest of 0 to 15.
uint8_t ToInt4(float value) {
  return static_cast<uint8_t>(Rounded(std::clamp(value, 0.0f, 15.0f)));
}

// Scale and minimum by which weights are rounded.
struct Line {
  float scale = 0;
  float minimum = 0;
};

// The integers by `line`, and the squared error of what they stand for.
float RoundBy(const Line& line, const float* weights, int count, uint8_t* integers) {
  const float inverse = line.scale == 0 ? 0 : 1 / line.scale;
  float error = 0;
  for (int i = 0; i < count; ++i) {
    integers[i] = ToInt4((weights[i] - line.minimum) * inverse);
    const float off = line.scale * static_cast<float>(integers[i]) + line.minimum - weights[i];
    error += off * off;
  }
  return error;
}

// The line of least squares through (integer, weight); `otherwise` where all integers are one.
Line FitLine(const float* weights, const uint8_t* integers, int count, const Line& otherwise) {
  float sum_x = 0;
  float sum_xx = 0;
  float sum_y = 0;
  float sum_xy = 0;
  for (int i = 0; i < count; ++i) {
    const float x = integers[i];
    sum_x += x;
    sum_xx += x * x;
    sum_y += weights[i];
    sum_xy += x * weights[i];
  }
  const float n = static_cast<float>(count);
  const float spread = n * sum_xx - sum_x * sum_x;
  if (spread <= 0) return otherwise;
  const float scale = (n * sum_xy - sum_x * sum_y) / spread;
  return {scale, (sum_y - scale * sum_x) / n};
}

void Quantize(const float* x, int k, RowGroup* groups, int stride) {
  for (int group = 0; group < InputGroups(k); ++group, groups += stride) {
    const int begin = group * kGroupInputs;
    const int count = std::min(k - begin, kGroupInputs);
    const Int8Scale of = ScaleOf(x + begin, count);
    int32_t sum = 0;
    for (int i = 0; i < kGroupInputs; ++i) {
      groups->integers[i] = i < count ? ToInt8(x[begin + i], of.inverse) : int8_t{0};
      sum += groups->integers[i];
    }
    groups->scale = of.scale;
    groups->scaled_sum = of.scale * static_cast<float>(sum);
    groups->start_4 = -8 * sum;
    groups->start_8 = -128 * sum;
  }
}

void Multiply(const GroupedArgs& args, float (*out)[32]) {
  for (int row = 0; row < args.rows; ++row) {
    for (int column = 0; column < 32; ++column) {
      float sum = 0;
      for (int group = 0; group < args.groups; ++group) {
        const WeightGroup weights = LoadGroup(args.layout, args.panel, group, column);
        const RowGroup& of_row = args.x[group * args.rows + row];
        int32_t products = 0;
        for (int i = 0; i < kGroupInputs; ++i) {
          products += (weights.integers[i] - args.layout.offset()) * int32_t{of_row.integers[i]};
        }
        sum = std::fma(static_cast<float>(products), weights.scale * of_row.scale, sum);
        if (args.layout.has_minimum()) sum = std::fma(weights.minimum, of_row.scaled_sum, sum);
      }
      out[row][column] = sum;
    }
  }
}

}  // namespace

WeightGroup RoundToInt4(const float* weights, int count) {
  const auto [least, most] = std::minmax_element(weights, weights + count);
  WeightGroup best;
  if (*least == *most) {
    // One value has no range: it is the minimum, rounded, and what that rounding leaves.
    best.minimum = RoundedToHalf(*least);
    return best;
  }
  float best_error = 0;
  // The range cut by up to a fifth, or not: few of 32 weights lie at its ends.
  for (int step = 0; step <= 4; ++step) {
    const float cut = (*most - *least) * 0.025f * static_cast<float>(step);
    Line line{(*most - *least - 2 * cut) / 15, *least + cut};
    WeightGroup group;
    RoundBy(line, weights, count, group.integers);
    line = FitLine(weights, group.integers, count, line);
    line = {RoundedToHalf(line.scale), RoundedToHalf(line.minimum)};
    const float error = RoundBy(line, weights, count, group.integers);
    if (step > 0 && !(error < best_error)) continue;
    best_error = error;
    best = group;
    best.scale = line.scale;
    best.minimum = line.minimum;
  }
  return best;
}

WeightGroup RoundToInt8(const float* weights, int count) {
  WeightGroup group;
  // The scale as it is stored, so that the integers are the nearest by it.
  group.scale = RoundedToHalf(ScaleOf(weights, count).scale);
  const float inverse = group.scale == 0 ? 0 : 1 / group.scale;
  for (int i = 0; i < kGroupInputs; ++i) {
    const float value = i < count ? weights[i] * inverse : 0.0f;
    group.integers[i] =
        static_cast<uint8_t>(128 + static_cast<int>(Rounded(std::clamp(value, -128.0f, 127.0f))));
  }
  return group;
}

float WeightOf(const GroupLayout& layout, const WeightGroup& group, int index) {
  const float integer = static_cast<float>(group.integers[index] - layout.offset());
  return std::fma(group.scale, integer, layout.has_minimum() ? group.minimum : 0.0f);
}

void StoreGroup(const GroupLayout& layout, const WeightGroup& weights, int group, int column,
                uint8_t* panel) {
  uint8_t* at = panel + static_cast<size_t>(group) * layout.group_bytes();
  WriteScale(layout.scales, weights.scale, column, at);
  if (layout.has_minimum()) {
    WriteScale(layout.scales, weights.minimum, column, at + layout.scale_bytes());
  }
  at += layout.header_bytes();
  for (int i = 0; i < kGroupInputs; ++i) {
    uint8_t& place = at[PlaceOf(layout.integers, column, i)];
    if (layout.integers == Integers::kInt8) {
      place = weights.integers[i];
    } else if (i / kInt8Group % 2 == 0) {
      place = static_cast<uint8_t>((place & 0xf0) | weights.integers[i]);
    } else {
      place = static_cast<uint8_t>((place & 0x0f) | weights.integers[i] << 4);
    }
  }
}

WeightGroup LoadGroup(const GroupLayout& layout, const uint8_t* panel, int group, int column) {
  const uint8_t* at = panel + static_cast<size_t>(group) * layout.group_bytes();
  WeightGroup weights;
  weights.scale = ReadScale(layout.scales, at, column);
  if (layout.has_minimum()) {
    weights.minimum = ReadScale(layout.scales, at + layout.scale_bytes(), column);
  }
  at += layout.header_bytes();
  for (int i = 0; i < kGroupInputs; ++i) {
    const uint8_t place = at[PlaceOf(layout.integers, column, i)];
    weights.integers[i] = place;
    if (layout.integers == Integers::kInt8) continue;
    weights.integers[i] = i / kInt8Group % 2 == 0 ? place & 0x0f : place >> 4;
  }
  return weights;
}

GroupedRows::GroupedRows(int rows, int max_k)
    : data_(static_cast<size_t>(rows) * InputGroups(max_k) * sizeof(RowGroup)) {}

const GroupedKernels kPortableGroupedKernels = {"portable", Quantize, Multiply};

}  // namespace tandem::model::cpu
