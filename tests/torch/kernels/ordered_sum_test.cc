#include "torch/kernels/ordered_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "common/random/random.h"
#include "common/sampling/elementary.h"
#include "torch/kernels/philox.h"

namespace tandem::kernels::ordered_sum_test {
namespace {

constexpr int kThreads = 32;
constexpr ThreadOrder kOrders[] = {ThreadOrder::kAscending, ThreadOrder::kDescending,
                                   ThreadOrder::kOddFirst};

// Values that are hard to add: of very different sizes, with sums that leave their range at every
// place, half-way between two sums, zeros, the smallest numbers there are.
std::vector<double> HardValues(std::mt19937_64& random) {
  std::vector<double> values;
  values.reserve(700);
  values.resize(random() % 700);
  const int kind = static_cast<int>(random() % 5);
  for (double& value : values) {
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    switch (kind) {
      case 0:
        value = uniform;
        break;
      case 1:
        value = std::exp(-60 * uniform);
        break;
      case 2:  // whole numbers of halves of an ulp of the sums to come
        value = static_cast<double>(random() % 8) * 0x1p-53;
        if (random() % 50 == 0) value = 1;
        break;
      case 3:
        value = random() % 3 == 0 ? 0 : std::ldexp(uniform, -static_cast<int>(random() % 1074));
        break;
      case 4:
        value = 1.0 / static_cast<double>(1 + random() % 4);
        break;
    }
  }
  if (kind == 2 && !values.empty()) values[0] = 1;
  return values;
}

// `values` have room for one more.
auto All(const std::vector<double>& values) {
  return InRow(values.data(), [](double value) { return value; });
}

template <int kWays, int kRun = 3>
std::vector<double> Sums(const std::vector<double>& values, ThreadOrder order,
                         bool scan_in_place = false) {
  auto shared = std::make_unique<OrderedSums<kThreads, kWays>>();
  const Block block(0, 0, kThreads, order);
  Clear(block, *shared);
  AddInOrder<kRun>(block, *shared, static_cast<uint32_t>(values.size()), All(values), nullptr,
                   scan_in_place);
  return {shared->sums, shared->sums + kWays};
}

std::vector<double> Loop(const std::vector<double>& values, int ways) {
  std::vector<double> sums(ways);
  for (size_t i = 0; i < values.size(); ++i) sums[i % ways] += values[i];
  return sums;
}

TEST(OrderedSum, HasTheBitsOfTheLoop) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {
    const std::vector<double> values = HardValues(random);
    for (ThreadOrder order : kOrders) {
      ASSERT_EQ(Sums<1>(values, order), Loop(values, 1)) << "values " << i;
      ASSERT_EQ((Sums<1, 4>(values, order)), Loop(values, 1)) << "values " << i;
      ASSERT_EQ(Sums<4>(values, order), Loop(values, 4)) << "values " << i;
      ASSERT_EQ(Sums<8>(values, order), Loop(values, 8)) << "values " << i;
    }
  }
}

TEST(OrderedSum, GoesOnWithWhatWasAddedBefore) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100; ++i) {
    const std::vector<double> values = HardValues(random);
    const uint32_t first = static_cast<uint32_t>(values.size() / 3);
    OrderedSums<kThreads, 1> shared;
    const Block block(0, 0, kThreads, ThreadOrder::kAscending);
    Clear(block, shared);
    AddInOrder<3>(block, shared, first, All(values));
    AddInOrder<3>(block, shared, static_cast<uint32_t>(values.size()) - first,
                  InRow(values.data() + first, [](double value) { return value; }));
    ASSERT_EQ(shared.sums[0], Loop(values, 1)[0]);
  }
}

TEST(OrderedSum, FindsWhereTheLoopExceedsATarget) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 500; ++i) {
    const std::vector<double> values = HardValues(random);
    const double total = Loop(values, 1)[0];
    double target = total * static_cast<double>(random() >> 11) * 0x1p-53;
    if (i % 10 == 0) target = i % 20 == 0 ? 0 : total;
    uint32_t expected = OrderedSums<kThreads, 1>::kNowhere;
    double sum = 0;
    for (uint32_t j = 0; j < values.size(); ++j) {
      sum += values[j];
      if (i % 7 == 0 && j == values.size() / 2) target = sum;  // met exactly
    }
    sum = 0;
    for (uint32_t j = 0; j < values.size() && expected == OrderedSums<kThreads, 1>::kNowhere; ++j) {
      sum += values[j];
      if (sum > target) expected = j;
    }
    for (ThreadOrder order : kOrders) {
      OrderedSums<kThreads, 1> shared;
      const Block block(0, 0, kThreads, order);
      Clear(block, shared);
      AddInOrder<4>(block, shared, static_cast<uint32_t>(values.size()), All(values), &target);
      ASSERT_EQ(shared.found, expected) << "values " << i;
    }
  }
}

TEST(OrderedSum, AMissingBarrierIsFound) {
  std::mt19937_64 random(4);
  int wrong = 0;
  for (int i = 0; i < 20; ++i) {
    const std::vector<double> values = HardValues(random);
    for (ThreadOrder order : kOrders) {
      wrong += Sums<1>(values, order, /*scan_in_place=*/true) != Loop(values, 1) ? 1 : 0;
    }
  }
  EXPECT_GT(wrong, 0);
}

TEST(TokenNoise, IsThatOfTheHost) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 2000; ++i) {
    const uint64_t seed = random();
    const uint32_t sample = random() % 65536, position = static_cast<uint32_t>(random());
    const uint32_t pair = static_cast<uint32_t>(random()) / 2;
    const NoisePair noise = TokenNoise(seed, sample, position, pair);
    ASSERT_EQ(noise.even, random::TokenUniform(seed, sample, position, 2 * pair));
    ASSERT_EQ(noise.odd, random::TokenUniform(seed, sample, position, 2 * pair + 1));
  }
}

TEST(ElementaryFormulas, AreThoseOfTheVectors) {
  std::mt19937_64 random(6);
  for (int i = 0; i < 5000; ++i) {
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    const double x = -720 * uniform * uniform;
    ASSERT_EQ((sampling::ExpFormula<double, int64_t>(x)), sampling::Exp(x)) << x;
  }
}

}  // namespace
}  // namespace tandem::kernels::ordered_sum_test
