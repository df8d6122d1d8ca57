// The types that keys and values are held in, as the host converts them. A card has instructions
// for what Float16 does here.
#include "torch/kernels/numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tandem::kernels::numbers_test {
namespace {

TEST(Bfloat16, RoundsToTheNearestAndToTheEvenOne) {
  EXPECT_EQ(Bfloat16::Load(Bfloat16::Store(1.0f)), 1.0f);
  EXPECT_EQ(Bfloat16::Load(Bfloat16::Store(1.0f + 0x1p-8f)), 1.0f);
  EXPECT_EQ(Bfloat16::Load(Bfloat16::Store(1.0f + 0x1p-8f + 0x1p-20f)), 1.0f + 0x1p-7f);
  EXPECT_EQ(Bfloat16::Load(Bfloat16::Store(1.0f + 3 * 0x1p-8f)), 1.0f + 0x1p-6f);
  EXPECT_EQ(Bfloat16::Load(Bfloat16::Store(-INFINITY)), -INFINITY);
  EXPECT_TRUE(std::isnan(Bfloat16::Load(Bfloat16::Store(NAN))));
}

constexpr int kInfinity = 0x7c00;  // as a Float16

// What the bits of a half say by IEEE 754's definition.
double ValueOf(int half) {
  const int exponent = half >> 10 & 31, mantissa = half & 1023;
  const double value =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
  return half >> 15 != 0 ? -value : value;
}

bool SameBits(float a, float b) { return base::BitsAs<uint32_t>(a) == base::BitsAs<uint32_t>(b); }

// Some 4 million floats: of every sign and exponent many mantissas, with the first and the last.
template <typename Visit>
void VisitFloats(Visit visit) {
  constexpr uint32_t kMantissas = 1 << 23;
  for (uint32_t high = 0; high < 512; ++high) {
    for (uint32_t low = 0; low < kMantissas; low += 1021) {
      visit(base::BitsAs<float>(high << 23 | low));
    }
    for (uint32_t low = kMantissas - 3; low < kMantissas; ++low) {
      visit(base::BitsAs<float>(high << 23 | low));
    }
  }
}

TEST(Float16, EveryWordIsWhatItsBitsSay) {
  for (int half = 0; half < 0x10000; ++half) {
    const auto word = static_cast<uint16_t>(half);
    const int size = half & 0x7fff;
    const float value = Float16::Load(word);
    if (size > kInfinity) {
      ASSERT_TRUE(SameBits(value, base::BitsAs<float>(0x7fffffffu))) << half;
      ASSERT_EQ(Float16::Store(value), 0x7fff);
      continue;
    }
    const double wanted = size < kInfinity ? ValueOf(half) : half == size ? INFINITY : -INFINITY;
    ASSERT_TRUE(SameBits(value, static_cast<float>(wanted))) << half;
    ASSERT_EQ(Float16::Store(value), word);
  }
}

// At each place where the nearest number becomes another one, of both signs: at the middle between
// two, and at the floats beside it. Above the largest number the next one would be 65536.
TEST(Float16, RoundsToTheNearestAndToTheEvenOne) {
  for (int half = 0; half < kInfinity; ++half) {
    const auto middle = static_cast<float>((ValueOf(half) + ValueOf(half + 1)) / 2);
    const int even = half % 2 == 0 ? half : half + 1;
    ASSERT_EQ(Float16::Store(middle), even) << half;
    ASSERT_EQ(Float16::Store(std::nextafter(middle, 0.0f)), half) << half;
    ASSERT_EQ(Float16::Store(std::nextafter(middle, INFINITY)), half + 1) << half;
    ASSERT_EQ(Float16::Store(-middle), 0x8000 | even) << half;
    ASSERT_EQ(Float16::Store(std::nextafter(-middle, 0.0f)), 0x8000 | half) << half;
    ASSERT_EQ(Float16::Store(std::nextafter(-middle, -INFINITY)), 0x8000 | (half + 1)) << half;
  }
}

TEST(Float16, WhatIsTooLargeIsInfiniteAndANaNStaysOne) {
  EXPECT_EQ(Float16::Store(65519.996f), kInfinity - 1);
  for (float large : {65520.0f, 1e9f, 0x1.fffffep127f, INFINITY}) {
    EXPECT_EQ(Float16::Store(large), kInfinity);
    EXPECT_EQ(Float16::Store(-large), 0x8000 | kInfinity);
  }
  for (uint32_t nan : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffc01234u}) {
    EXPECT_EQ(Float16::Store(base::BitsAs<float>(nan)), 0x7fff) << nan;
  }
}

// Between the places above, too.
TEST(Float16, IsNeverFartherThanHalfAStep) {
  VisitFloats([](float value) {
    if (!(std::abs(value) < 65520)) return;
    const int half = Float16::Store(value);
    ASSERT_LT(half & 0x7fff, kInfinity) << value;
    // Below 2^-14 numbers are as far apart as there.
    const double step = std::ldexp(1.0, std::ilogb(std::max(std::abs(value), 0x1p-14f)) - 10);
    ASSERT_LE(std::abs(ValueOf(half) - value), step / 2) << value;
    ASSERT_EQ(std::signbit(value), half >> 15 != 0) << value;
  });
}

#if defined(__FLT16_MAX__) && !defined(__clang__)
TEST(Float16, HasTheBitsOfTheCompilers) {
  VisitFloats([](float value) {
    if (std::isnan(value)) return;
    const auto half = static_cast<_Float16>(value);
    ASSERT_EQ(Float16::Store(value), base::BitsAs<uint16_t>(half)) << value;
    ASSERT_TRUE(SameBits(Float16::Load(base::BitsAs<uint16_t>(half)), static_cast<float>(half)));
  });
}
#endif

}  // namespace
}  // namespace tandem::kernels::numbers_test
