// The 16-bit formats: each value as defined, in every kernel's registers too; rounding to bf16.
#include "model/cpu/packed_matrix.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "model/cpu/half.h"
#include "model/cpu/kernels.h"

namespace tandem::model::cpu {
namespace {

// By the format's definition.
double Float16Value(int half) {
  const int exponent = half >> 10 & 31;
  const int mantissa = half & 1023;
  double value =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  if (exponent == 31) value = mantissa == 0 ? INFINITY : NAN;
  return (half & 0x8000) != 0 ? -value : value;
}

// Of two neighbours in bf16 the nearer, and of equally near ones the even; by double arithmetic.
uint16_t NearestBfloat16(float value) {
  const uint16_t below = static_cast<uint16_t>(BitsOfFloat(value) >> 16);  // towards zero
  const uint16_t above = static_cast<uint16_t>(below + 1);
  const double left = std::abs(static_cast<double>(value)) - std::abs(FromBfloat16(below));
  // One step beyond the largest bf16 stands for infinity.
  const double next = (above & 0x7f80) == 0x7f80 ? 0x1p128 : std::abs(FromBfloat16(above));
  const double right = next - std::abs(static_cast<double>(value));
  if (left != right) return left < right ? below : above;
  return (below & 1) == 0 ? below : above;
}

TEST(Half, EveryFloat16IsWhatItsBitsSay) {
  for (int half = 0; half < 65536; ++half) {
    const float value = FromFloat16(static_cast<uint16_t>(half));
    const double wanted = Float16Value(half);
    if (std::isnan(wanted)) {
      EXPECT_TRUE(std::isnan(value)) << half;
    } else {
      ASSERT_EQ(value, wanted) << half;
      ASSERT_EQ(std::signbit(value), std::signbit(wanted)) << half;
    }
  }
}

TEST(Half, RoundsToTheNearestBfloat16TiesToEven) {
  std::vector<float> values = {0.0f,          -0.0f,    1.0f,
                               -1.0f,         1e-40f,   -1e-45f,
                               3.3895314e38f, 3.4e38f,  std::numeric_limits<float>::max(),
                               INFINITY,      -INFINITY};
  // Ties and their neighbours, at even and odd, in every binade.
  for (uint32_t high = 0; high < 0x7f80; high += 0x3f) {
    for (uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      values.push_back(FloatFromBits(high << 16 | low));
      values.push_back(FloatFromBits((high | 0x8001) << 16 | low));
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 100000; ++i) values.push_back(FloatFromBits(random()));
  int ties = 0;
  for (float value : values) {
    const uint16_t half = ToBfloat16(value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(FromBfloat16(half)));
      continue;
    }
    if (std::isinf(value)) {
      EXPECT_EQ(FromBfloat16(half), value);
      continue;
    }
    ASSERT_EQ(half, NearestBfloat16(value)) << value;
    ties += (BitsOfFloat(value) & 0xffff) == 0x8000 ? 1 : 0;
  }
  EXPECT_GT(ties, 500);
  // A NaN whose mark lies in the lower half only must not become infinite.
  EXPECT_TRUE(std::isnan(FromBfloat16(ToBfloat16(FloatFromBits(0x7f800001u)))));
}

TEST(Half, RoundsToTheNearestFloat16TiesToEven) {
  // All finite values in order, so that a value's neighbours are those beside it.
  for (uint16_t half = 0; half < 0x7bff; ++half) {
    const float below = FromFloat16(half);
    const float above = FromFloat16(half + 1);
    const float middle = (below + above) / 2;  // exact
    const uint16_t even = half % 2 == 0 ? half : half + 1;
    ASSERT_EQ(ToFloat16(below), half);
    ASSERT_EQ(ToFloat16(middle), even) << half;
    ASSERT_EQ(ToFloat16(std::nextafter(middle, 0.0f)), half) << half;
    ASSERT_EQ(ToFloat16(std::nextafter(middle, 1e9f)), half + 1) << half;
    ASSERT_EQ(ToFloat16(-middle), even | 0x8000) << half;
  }
  for (float large : {65504.0f, 65519.0f, 65520.0f, 1e30f, INFINITY}) {
    EXPECT_EQ(FromFloat16(ToFloat16(large)), 65504.0f) << large;
    EXPECT_EQ(FromFloat16(ToFloat16(-large)), -65504.0f) << large;
  }
  EXPECT_EQ(ToFloat16(1e-30f), 0);
  EXPECT_EQ(ToFloat16(-1e-30f), 0x8000);
  EXPECT_TRUE(std::isnan(FromFloat16(ToFloat16(NAN))));
}

TEST(PackedMatrix, KernelsWidenEveryFloat16) {
  constexpr int kColumns = 0x8000;
  std::vector<uint16_t> halves;
  for (int half = 0; half < 65536; ++half) {
    if ((half & 0x7c00) != 0x7c00) halves.push_back(static_cast<uint16_t>(half));
  }
  halves.resize(2 * kColumns);
  PackedMatrix matrix(kColumns, 2, WeightType::kFloat16, [&](int row) {
    return SourceRow{&halves[2 * row], SourceType::kFloat16};
  });
  for (const Kernels* kernels : SupportedKernels()) {
    for (int which : {0, 1}) {
      const float x[] = {which == 0 ? 1.0f : 0.0f, which == 1 ? 1.0f : 0.0f};
      std::vector<float> out(kColumns);
      matrix.Multiply(*kernels, x, 2, 1, 0, matrix.panels(), Epilogue::kStore, nullptr, out.data(),
                      kColumns, kColumns);
      for (int i = 0; i < kColumns; ++i) {
        ASSERT_EQ(out[i], Float16Value(halves[2 * i + which])) << kernels->name << " " << i;
      }
    }
  }
}

TEST(PackedMatrix, RoundsWhatIsHeldAsBfloat16AndSaysSo) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> values(40 * 7);
  for (float& value : values) value = normal(random);
  auto pack = [&](WeightType type) {
    return PackedMatrix(40, 7, type, [&](int row) {
      return SourceRow{&values[row * 7], SourceType::kFloat32};
    });
  };
  const PackedMatrix rounded = pack(WeightType::kBfloat16);
  EXPECT_FALSE(rounded.exact());
  EXPECT_TRUE(pack(WeightType::kFloat32).exact());
  EXPECT_EQ(2 * rounded.bytes(), pack(WeightType::kFloat32).bytes());
  for (int row = 0; row < 40; ++row) {
    float out[7];
    rounded.ReadColumn(row, out);
    for (int i = 0; i < 7; ++i) {
      EXPECT_EQ(out[i], FromBfloat16(NearestBfloat16(values[row * 7 + i])));
    }
  }
  for (float& value : values) value = FromBfloat16(ToBfloat16(value));
  EXPECT_TRUE(pack(WeightType::kBfloat16).exact());
  values[200] = 1.001f;
  EXPECT_FALSE(pack(WeightType::kBfloat16).exact());
}

}  // namespace
}  // namespace tandem::model::cpu
