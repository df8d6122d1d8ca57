#include "common/sampling/elementary.h"

#include <cmath>
#include <limits>
#include <vector>

#include "common/random/random.h"
#include "common/sampling/exp_groups.h"
#include "gtest/gtest.h"

namespace tandem::sampling {
namespace {

double Number(uint32_t i) { return random::Uniform({1, 0, 0}, i, random::Purpose::kUser); }

TEST(ExpTest, RelativeErrorBelowTenToMinusFifteen) {
  for (uint32_t i = 0; i < 300'000; ++i) {
    double x = kMinExponent * std::pow(Number(i), 3);
    long double exact = expl(static_cast<long double>(x));
    ASSERT_LT(std::abs(static_cast<double>((Exp(x) - exact) / exact)), 1e-15) << x;
  }
  EXPECT_EQ(Exp(0), 1);
  EXPECT_GT(Exp(kMinExponent), 0);
  EXPECT_EQ(Exp(std::nextafter(kMinExponent, -1000)), 0);
  EXPECT_EQ(Exp(-std::numeric_limits<double>::infinity()), 0);
  EXPECT_EQ(Exp(-1e308), 0);
}

TEST(ExpTest, AllAtOnceIsTheSameAsOneByOne) {
  for (size_t size = 1; size < 40; ++size) {
    std::vector<float> logits(size);
    for (size_t i = 0; i < size; ++i) logits[i] = static_cast<float>(Number(i) * -30);
    if (size > 3) logits[2] = -std::numeric_limits<float>::infinity();
    std::vector<double> values(size);
    double sum = ExpAll(logits, 0.5f, 1.25, absl::MakeSpan(values));
    double slow_sum = 0;
    for (size_t i = 0; i < size; ++i) {
      EXPECT_EQ(values[i], Exp((double{logits[i]} - 0.5) * 1.25));
      slow_sum += values[i];
    }
    EXPECT_NEAR(sum, slow_sum, 1e-15 * static_cast<double>(size));
  }
}

TEST(ExpTest, IsTheSameByEachInstructionSet) {
  constexpr size_t kGroups = 5;
  std::vector<float> logits(kGroups * kExpGroup);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(Number(i) * -900);
  logits[11] = -std::numeric_limits<float>::infinity();
  for (const ExpGroups exp_groups : SupportedExpGroups()) {
    std::vector<double> values(logits.size()), sums(kExpGroup, 0.25);
    exp_groups(logits.data(), kGroups, 0.5, 1.25, values.data(), sums.data());
    std::vector<double> expected(kExpGroup, 0.25);
    for (size_t i = 0; i < logits.size(); ++i) {
      EXPECT_EQ(values[i], Exp((double{logits[i]} - 0.5) * 1.25)) << i;
      expected[i % kExpGroup] += values[i];
    }
    EXPECT_EQ(sums, expected);
  }
}

TEST(LogTest, RelativeErrorBelowTenToMinusFifteenAlsoNearOne) {
  for (uint32_t i = 0; i < 300'000; ++i) {
    double u = Number(i);
    double y = i % 2 == 0 ? 1 - std::ldexp(u, -static_cast<int>(i % 53))
                          : std::ldexp(1 - u, -static_cast<int>(i % 200));
    if (y == 1 || y <= 0) continue;
    long double exact = logl(static_cast<long double>(y));
    ASSERT_LT(std::abs(static_cast<double>((Log(y) - exact) / exact)), 1e-15) << y;
  }
  EXPECT_EQ(Log(1), 0);
  EXPECT_EQ(Log(1 - 0x1p-53), -0x1p-53 - 0x1p-107);
}

}  // namespace
}  // namespace tandem::sampling
