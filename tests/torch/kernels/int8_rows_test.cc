// Rows to integers and sums to numbers, on the host, against model/'s own: bit for bit.
#include "torch/kernels/int8_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "model/cpu/int8.h"

namespace tandem::kernels::int8_rows_test {
namespace {

struct TestTraits {
  static constexpr int kThreads = 64;
  static inline Int8RowsFault kFault = Int8RowsFault::kNone;
};

constexpr ThreadOrder kOrders[] = {ThreadOrder::kAscending, ThreadOrder::kDescending,
                                   ThreadOrder::kOddFirst};

bool SameBits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof(a)) == 0;
}

// Rows of one size: noise, ties between integers, and what is at the edges.
std::vector<float> Rows(size_t rows, size_t size, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(rows * size);
  for (size_t row = 0; row < rows; ++row) {
    float* x = &values[row * size];
    for (size_t i = 0; i < size; ++i) x[i] = normal(random);
    switch (row % 8) {
      case 1:  // halves: 127 / 127 is 1
        for (size_t i = 0; i < size; ++i) x[i] = static_cast<float>(random() % 508) / 2 - 127;
        x[0] = 127;
        break;
      case 2:
        for (size_t i = 0; i < size; ++i) x[i] = 0;
        break;
      case 3:
        for (size_t i = 0; i < size; ++i) x[i] *= 1e-40f;
        break;
      case 4:
        x[random() % size] = std::numeric_limits<float>::infinity();
        break;
      case 5:
        x[random() % size] = std::numeric_limits<float>::quiet_NaN();
        break;
      case 6:
        for (size_t i = 0; i < size; ++i) x[i] *= 1e38f;
        break;
      case 7: {  // as near to halves as floats are
        x[0] = 1 + std::abs(x[0]);
        const float inverse = model::cpu::ScaleOf(x, 1).inverse;
        for (size_t i = 1; i < size; ++i) {
          const double half = static_cast<double>(random() % 126) + 0.5;
          x[i] = static_cast<float>(half / inverse);
          if (i % 3 == 1) x[i] = std::nextafter(x[i], 0.0f);
          if (i % 3 == 2) x[i] = std::nextafter(x[i], 1e9f);
        }
        break;
      }
      default:
        break;
    }
  }
  return values;
}

// Empty, or what is wrong.
std::string CheckQuantize() {
  constexpr uint32_t kRows = 400;
  std::mt19937_64 random(3);
  for (uint32_t size : {1u, 13u, 64u, 250u}) {
    const uint32_t stride = (size + 7) / 8 * 8;
    const std::vector<float> in = Rows(kRows, size, random);
    std::vector<int8_t> out(kRows * stride, 99);
    std::vector<float> scales(kRows, 99);
    QuantizeArguments a;
    a.in = in.data();
    a.out = out.data();
    a.scales = scales.data();
    a.size = size;
    a.stride = stride;
    QuantizeShared<TestTraits> shared;
    for (uint32_t row = 0; row < kRows; ++row) {
      Quantize<TestTraits>(Block(row, 0, TestTraits::kThreads, kOrders[row % 3]), shared, a);
      const float* x = &in[row * size];
      const model::cpu::Int8Scale scale = model::cpu::ScaleOf(x, static_cast<int>(size));
      if (!SameBits(scales[row], scale.scale)) return absl::StrCat("scale of row ", row);
      for (uint32_t i = 0; i < stride; ++i) {
        const int wanted = i < size ? model::cpu::ToInt8(x[i], scale.inverse) : 0;
        if (out[row * stride + i] != wanted) {
          return absl::StrCat("row ", row, ", ", i, ": ", int{out[row * stride + i]}, ", expected ",
                              wanted);
        }
      }
    }
  }
  return "";
}

TEST(Quantize, HasTheIntegersAndScalesOfTheCpu) { EXPECT_EQ(CheckQuantize(), ""); }

TEST(Quantize, PlantedFaultsAreFound) {
  for (Int8RowsFault fault : {Int8RowsFault::kInverseOfScale, Int8RowsFault::kRoundedTwice,
                              Int8RowsFault::kPaddingForgotten}) {
    TestTraits::kFault = fault;
    EXPECT_NE(CheckQuantize(), "") << static_cast<int>(fault);
  }
  TestTraits::kFault = Int8RowsFault::kNone;
}

TEST(Scale, MultipliesByTheRowsScaleFirst) {
  constexpr uint32_t kRows = 3, kSize = 150, kStride = 152;
  std::mt19937_64 random(4);
  std::normal_distribution<float> normal;
  std::vector<int32_t> sums(kRows * kStride);
  for (int32_t& sum : sums) sum = static_cast<int32_t>(random());
  std::vector<float> row_scales(kRows), output_scales(kSize), out(kRows * kSize, NAN);
  for (float& scale : row_scales) scale = normal(random);
  for (float& scale : output_scales) scale = normal(random);
  ScaleArguments a;
  a.sums = sums.data();
  a.row_scales = row_scales.data();
  a.output_scales = output_scales.data();
  a.out = out.data();
  a.size = kSize;
  a.stride = kStride;
  for (uint32_t row = 0; row < kRows; ++row) {
    for (uint32_t y = 0; y * TestTraits::kThreads < kSize; ++y) {
      Scale<TestTraits>(Block(row, y, TestTraits::kThreads, kOrders[row % 3]), a);
    }
  }
  for (uint32_t row = 0; row < kRows; ++row) {
    for (uint32_t i = 0; i < kSize; ++i) {
      const float by_row = static_cast<float>(sums[row * kStride + i]) * row_scales[row];
      ASSERT_EQ(out[row * kSize + i], by_row * output_scales[i]) << row << ", " << i;
    }
  }
}

}  // namespace
}  // namespace tandem::kernels::int8_rows_test
