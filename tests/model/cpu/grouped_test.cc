// Products by groups of inputs: the same bits on every instruction set, those that grouped.h
// defines, near the products of the weights that a panel stands for; and how weights are rounded to
// them.
#include "model/cpu/grouped.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "model/cpu/half.h"
#include "model/cpu/kernels.h"
#include "model/cpu/packed_matrix.h"
#include "tests/model/cpu/normal_values.h"

namespace tandem::model::cpu::grouped_test {
namespace {

constexpr GroupLayout kLayouts[] = {
    {Integers::kInt4, ScaleType::kFloat16},         {Integers::kInt4, ScaleType::kFloat32},
    {Integers::kInt4Centered, ScaleType::kFloat16}, {Integers::kInt4Centered, ScaleType::kFloat32},
    {Integers::kInt8, ScaleType::kFloat16},         {Integers::kInt8, ScaleType::kFloat32},
};

std::string Name(const GroupLayout& layout) {
  const char* const integers[] = {"int4", "int4 centered", "int8"};
  return std::string(integers[static_cast<int>(layout.integers)]) +
         (layout.scales == ScaleType::kFloat16 ? ", fp16" : ", fp32");
}

float Half(float value) { return FromFloat16(ToFloat16(value)); }

// Rows by group, each a block of its own, or all of a pass.
struct Rows {
  Rows(const GroupedKernels& kernels, const std::vector<float>& x, int k)
      : k(k), count(static_cast<int>(x.size()) / k) {
    for (int row = 0; row < count; ++row) {
      std::vector<RowGroup>& groups = each.emplace_back(InputGroups(k));
      for (RowGroup& group : groups) std::memset(group.integers, 99, sizeof(group.integers));
      kernels.quantize(&x[static_cast<size_t>(row) * k], k, groups.data(), 1);
    }
  }
  const RowGroup& group(int row, int group) const { return each[row][group]; }
  int integer(int row, int i) const {
    return each[row][i / kGroupInputs].integers[i % kGroupInputs];
  }
  float value(int row, int i) const {
    return static_cast<float>(integer(row, i)) * group(row, i / kGroupInputs).scale;
  }
  // The first `rows` as one block.
  std::vector<RowGroup> Block(int rows) const {
    std::vector<RowGroup> block;
    for (int group = 0; group < InputGroups(k); ++group) {
      for (int row = 0; row < rows; ++row) block.push_back(each[row][group]);
    }
    return block;
  }

  int k;
  int count;
  std::vector<std::vector<RowGroup>> each;
};

// A panel of random weights, [column][group].
struct Panel {
  Panel(const GroupLayout& layout, int groups, std::mt19937& random)
      : layout(layout), groups(groups), bytes(groups * layout.group_bytes()) {
    std::normal_distribution<float> normal;
    const auto scale = [&] {
      const float value = normal(random) * 0.01f;
      return layout.scales == ScaleType::kFloat16 ? Half(value) : value;
    };
    for (int column = 0; column < 32; ++column) {
      for (int group = 0; group < groups; ++group) {
        WeightGroup& weights = columns[column].emplace_back();
        for (uint8_t& integer : weights.integers) {
          integer =
              static_cast<uint8_t>(random() % (layout.integers == Integers::kInt8 ? 256 : 16));
        }
        weights.scale = scale();
        if (layout.has_minimum()) weights.minimum = scale() * 8;
      }
    }
    Store();
  }

  void Store() {
    for (int column = 0; column < 32; ++column) {
      for (int group = 0; group < groups; ++group) {
        StoreGroup(layout, columns[column][group], group, column, bytes.data());
      }
    }
  }

  std::vector<float> Multiply(const GroupedKernels& kernels, const Rows& x, int rows) const {
    const std::vector<RowGroup> block = x.Block(rows);
    const GroupedArgs args{layout, bytes.data(), block.data(), rows, groups};
    float out[kMaxGroupedRows][32];
    kernels.multiply(args, out);
    std::vector<float> all;
    for (int row = 0; row < rows; ++row) all.insert(all.end(), out[row], out[row] + 32);
    return all;
  }

  GroupLayout layout;
  int groups;
  std::vector<WeightGroup> columns[32];
  std::vector<uint8_t> bytes;
};

// The header's definition, of one row and column.
float Defined(const Panel& panel, const Rows& x, int row, int column) {
  float sum = 0;
  for (int group = 0; group < panel.groups; ++group) {
    const WeightGroup& weights = panel.columns[column][group];
    int64_t products = 0;
    int64_t activations = 0;
    for (int i = 0; i < kGroupInputs; ++i) {
      const int64_t value = x.integer(row, group * kGroupInputs + i);
      products += (weights.integers[i] - panel.layout.offset()) * value;
      activations += value;
    }
    const float scale = x.group(row, group).scale;
    sum = std::fma(static_cast<float>(products), weights.scale * scale, sum);
    if (panel.layout.has_minimum()) {
      sum = std::fma(weights.minimum, scale * static_cast<float>(activations), sum);
    }
  }
  return sum;
}

TEST(GroupedQuantize, IsTheNearestIntegerOfTheGroupsScale) {
  std::mt19937 random(1);
  for (int k : {1, 31, 32, 33, 64, 100}) {
    std::vector<float> x = Normal(random, k, 3.0f);
    for (int i = 0; i < k; ++i) x[i] *= std::ldexp(1.0f, i / kGroupInputs * 5);
    const Rows rows(kPortableGroupedKernels, x, k);
    for (int group = 0; group < InputGroups(k); ++group) {
      const int begin = group * kGroupInputs;
      const int end = std::min(k, begin + kGroupInputs);
      float largest = 0;
      for (int i = begin; i < end; ++i) largest = std::max(largest, std::fabs(x[i]));
      const RowGroup& of = rows.group(0, group);
      EXPECT_EQ(of.scale, largest / 127.0f);
      int sum = 0;
      for (int i = begin; i < begin + kGroupInputs; ++i) {
        const double exact = i < end ? static_cast<double>(x[i]) * (127.0f / largest) : 0.0;
        ASSERT_EQ(rows.integer(0, i), std::nearbyint(exact)) << i;
        sum += rows.integer(0, i);
      }
      EXPECT_EQ(of.scaled_sum, of.scale * static_cast<float>(sum));
      EXPECT_EQ(of.start_4, -8 * sum);
      EXPECT_EQ(of.start_8, -128 * sum);
    }
  }
}

TEST(GroupedQuantize, TheSameOnEveryInstructionSet) {
  std::mt19937 random(2);
  std::vector<std::vector<float>> all;
  for (int k : {1, 4, 31, 32, 33, 64, 67, 1000}) {
    all.push_back(Normal(random, k, std::ldexp(1.0f, static_cast<int>(random() % 40) - 20)));
    all.emplace_back(k, 0.0f);
    all.emplace_back(k, -1e-39f);  // its reciprocal is infinite
    for (float odd : {NAN, -NAN, INFINITY, -INFINITY}) {
      all.push_back(Normal(random, k));
      all.back()[random() % k] = odd;
    }
    std::vector<float> halves(k, 127.0f);  // ties
    for (int i = 1; i < k; ++i) halves[i] = static_cast<float>(random() % 254) - 126.5f;
    all.push_back(halves);
  }
  for (const std::vector<float>& x : all) {
    const int k = static_cast<int>(x.size());
    const Rows wanted(kPortableGroupedKernels, x, k);
    for (const Kernels* kernels : SupportedKernels()) {
      const Rows rows(*kernels->grouped, x, k);
      for (int group = 0; group < InputGroups(k); ++group) {
        const int begin = group * kGroupInputs;
        const RowGroup& of = rows.group(0, group);
        const RowGroup& as = wanted.group(0, group);
        ASSERT_EQ(std::memcmp(of.integers, as.integers, sizeof(of.integers)), 0)
            << kernels->grouped->name;
        ASSERT_EQ(of.start_4, as.start_4);
        ASSERT_EQ(of.start_8, as.start_8);
        const bool finite = std::all_of(x.begin() + begin, x.begin() + std::min(k, begin + 32),
                                        [](float value) { return std::isfinite(value); });
        ASSERT_EQ(std::isnan(of.scale), !finite);
        ASSERT_TRUE(!finite || (of.scale == as.scale && of.scaled_sum == as.scaled_sum));
      }
    }
  }
}

TEST(GroupedMultiply, IsWhatTheHeaderDefinesOnEveryInstructionSet) {
  std::mt19937 random(3);
  for (const GroupLayout& layout : kLayouts) {
    for (int groups : {1, 2, 7, 40}) {
      const int k = groups * kGroupInputs;
      const Panel panel(layout, groups, random);
      const Rows x(kPortableGroupedKernels, Normal(random, kMaxGroupedRows * k), k);
      for (const Kernels* kernels : SupportedKernels()) {
        for (int rows = 1; rows <= kMaxGroupedRows; ++rows) {
          const std::vector<float> out = panel.Multiply(*kernels->grouped, x, rows);
          for (int i = 0; i < rows * 32; ++i) {
            ASSERT_EQ(out[i], Defined(panel, x, i / 32, i % 32))
                << Name(layout) << ", " << kernels->grouped->name << ", " << rows << " rows";
          }
        }
      }
    }
  }
}

TEST(GroupedMultiply, TheLargestSumsFit) {
  std::mt19937 random(4);
  for (const GroupLayout& layout : kLayouts) {
    const int largest = layout.integers == Integers::kInt8 ? 255 : 15;
    for (int integer : {0, largest}) {
      for (float value : {1.0f, -1.0f}) {
        Panel panel(layout, 2, random);
        for (auto& column : panel.columns) {
          for (WeightGroup& group : column) {
            std::fill(std::begin(group.integers), std::end(group.integers), integer);
          }
        }
        panel.Store();
        const Rows x(kPortableGroupedKernels, std::vector<float>(64, value), 64);
        ASSERT_EQ(std::abs(x.integer(0, 0)), 127);
        for (const Kernels* kernels : SupportedKernels()) {
          const std::vector<float> out = panel.Multiply(*kernels->grouped, x, 1);
          for (int i = 0; i < 32; ++i) ASSERT_EQ(out[i], Defined(panel, x, 0, i)) << Name(layout);
        }
      }
    }
  }
}

// The largest deviation of a panel's products from those of `weights`, the columns' values, in
// parts of a column's size. Sums of fp32 alone stay below a hundred-thousandth.
double Deviation(const Panel& panel, const std::vector<std::vector<float>>& weights, const Rows& x,
                 const GroupedKernels& kernels) {
  double largest = 0;
  const std::vector<float> out = panel.Multiply(kernels, x, 1);
  for (int column = 0; column < 32; ++column) {
    double exact = 0;
    double size = 0;
    for (int i = 0; i < x.k; ++i) {
      const double product = static_cast<double>(weights[column][i]) * x.value(0, i);
      exact += product;
      size += product * product;
    }
    largest = std::max(largest, std::fabs(out[column] - exact) / std::sqrt(size));
  }
  return largest;
}

// What a panel stands for, told by the file formats' formulas and not by WeightOf.
std::vector<std::vector<float>> Dequantised(const Panel& panel) {
  std::vector<std::vector<float>> weights(32);
  for (int column = 0; column < 32; ++column) {
    for (const WeightGroup& group : panel.columns[column]) {
      for (uint8_t integer : group.integers) {
        weights[column].push_back(
            group.scale * static_cast<float>(integer - panel.layout.offset()) + group.minimum);
      }
    }
  }
  return weights;
}

class GroupedPanels : public ::testing::TestWithParam<GroupLayout> {
 protected:
  static constexpr int kGroups = 12;
  static constexpr double kRounding = 1e-5;

  // The fault shows on every instruction set.
  void ExpectFaultSeen(const Panel& faulty) {
    for (const Kernels* kernels : SupportedKernels()) {
      EXPECT_GT(Deviation(faulty, weights_, x_, *kernels->grouped), kRounding) << kernels->name;
    }
  }
  // A number of the header of column 5's group 3 has another last bit.
  Panel WithWrongNumber(int offset) const {
    Panel faulty = panel_;
    const int bytes = GetParam().scales == ScaleType::kFloat16 ? 2 : 4;
    uint8_t* const at = &faulty.bytes[3 * GetParam().group_bytes() + offset + 5 * bytes];
    // The last bit that fp16 has.
    at[bytes == 2 ? 0 : 1] ^= bytes == 2 ? 1 : 0x20;
    return faulty;
  }

  std::mt19937 random_{5};
  const Panel panel_{GetParam(), kGroups, random_};
  const std::vector<std::vector<float>> weights_ = Dequantised(panel_);
  const Rows x_{kPortableGroupedKernels, Normal(random_, kGroups* kGroupInputs),
                kGroups* kGroupInputs};
};

INSTANTIATE_TEST_SUITE_P(Layouts, GroupedPanels, ::testing::ValuesIn(kLayouts));

TEST_P(GroupedPanels, GiveTheProductsOfTheWeightsThatTheyStandFor) {
  for (const Kernels* kernels : SupportedKernels()) {
    EXPECT_LT(Deviation(panel_, weights_, x_, *kernels->grouped), kRounding) << kernels->name;
  }
  for (int column = 0; column < 32; ++column) {
    for (int i = 0; i < x_.k; ++i) {
      const WeightGroup group =
          LoadGroup(GetParam(), panel_.bytes.data(), i / kGroupInputs, column);
      ASSERT_NEAR(WeightOf(GetParam(), group, i % kGroupInputs), weights_[column][i], 1e-6);
    }
  }
}

TEST_P(GroupedPanels, AWrongScaleOrMinimumShows) {
  for (int at = 0; at < GetParam().header_bytes(); at += GetParam().scale_bytes()) {
    ExpectFaultSeen(WithWrongNumber(at));
  }
}

TEST_P(GroupedPanels, ExchangedGroupsShow) {
  Panel faulty = panel_;
  const int bytes = GetParam().group_bytes();
  std::swap_ranges(&faulty.bytes[3 * bytes], &faulty.bytes[3 * bytes] + bytes,
                   &faulty.bytes[4 * bytes]);
  ExpectFaultSeen(faulty);
}

TEST_P(GroupedPanels, HeadersOfExchangedGroupsShow) {
  Panel faulty = panel_;
  const int bytes = GetParam().group_bytes();
  std::swap_ranges(&faulty.bytes[3 * bytes], &faulty.bytes[3 * bytes] + GetParam().header_bytes(),
                   &faulty.bytes[4 * bytes]);
  ExpectFaultSeen(faulty);
}

TEST_P(GroupedPanels, AWrongIntegerShows) {
  Panel faulty = panel_;
  faulty.bytes[3 * GetParam().group_bytes() + GetParam().header_bytes() + 77] ^= 1;
  ExpectFaultSeen(faulty);
}

double SquaredError(const GroupLayout& layout, const WeightGroup& group,
                    const std::vector<float>& weights) {
  double error = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double off = WeightOf(layout, group, static_cast<int>(i)) - double{weights[i]};
    error += off * off;
  }
  return error;
}

TEST(RoundToInt4, HasNoMoreErrorThanTheRangeInFifteenSteps) {
  std::mt19937 random(6);
  double least = 0;
  double by_range = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const std::vector<float> weights =
        Normal(random, 1 + random() % 32, std::ldexp(1.0f, -static_cast<int>(random() % 8)));
    WeightGroup plain;
    const auto [low, high] = std::minmax_element(weights.begin(), weights.end());
    plain.scale = Half((*high - *low) / 15);
    plain.minimum = Half(*low);
    for (size_t i = 0; i < weights.size(); ++i) {
      const float at = plain.scale == 0 ? 0 : (weights[i] - plain.minimum) / plain.scale;
      plain.integers[i] = static_cast<uint8_t>(std::clamp(std::nearbyint(at), 0.0f, 15.0f));
    }
    const double error = SquaredError({}, RoundToInt4(weights.data(), weights.size()), weights);
    const double range_error = SquaredError({}, plain, weights);
    EXPECT_LE(error, range_error * 1.1 + 1e-9);
    least += error;
    by_range += range_error;
  }
  EXPECT_LT(least, 0.95 * by_range);
}

TEST(RoundToInt4, KeepsWhatItHolds) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const float scale = Half(0.001f * static_cast<float>(1 + random() % 1000));
    const float minimum = Half(-0.01f * static_cast<float>(random() % 500));
    std::vector<float> weights(32);
    for (float& weight : weights) weight = scale * static_cast<float>(random() % 16) + minimum;
    weights[3] = minimum;
    weights[9] = scale * 15 + minimum;
    const WeightGroup group = RoundToInt4(weights.data(), 32);
    for (int i = 0; i < 32; ++i) ASSERT_NEAR(WeightOf({}, group, i), weights[i], 0.02 * scale);
  }
  const std::vector<float> same(20, Half(-0.37f));
  const WeightGroup group = RoundToInt4(same.data(), 20);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(WeightOf({}, group, i), same[i]);
  for (float value : {65504.0f, -65504.0f, 1e-30f, 0.0f}) {
    EXPECT_NEAR(WeightOf({}, RoundToInt4(&value, 1), 0), value, 1e-7);
  }
}

TEST(RoundToInt8, IsWithinHalfAStepOfItsScale) {
  std::mt19937 random(8);
  const GroupLayout layout{Integers::kInt8, ScaleType::kFloat16};
  for (float size : {0.02f, 1.0f, 60000.0f}) {
    const std::vector<float> weights = Normal(random, 29, size / 4);
    const WeightGroup group = RoundToInt8(weights.data(), 29);
    float largest = 0;
    for (float weight : weights) largest = std::max(largest, std::fabs(weight));
    EXPECT_NEAR(group.scale, largest / 127, largest / 127 / 1024 + 3.1e-8);
    for (int i = 0; i < 29; ++i) {
      // The largest may lie beyond 127 steps of a scale that fp16 has rounded down.
      ASSERT_NEAR(WeightOf(layout, group, i), weights[i],
                  group.scale * 0.5001f + std::fabs(weights[i]) / 1024);
    }
    for (int i = 29; i < 32; ++i) EXPECT_EQ(group.integers[i], 128);
  }
}

struct Problem {
  Problem(int n_in, int k_in, WeightType type, std::mt19937& random)
      : n(n_in), k(k_in), weights(Normal(random, static_cast<size_t>(n_in) * k_in)) {
    bias = Normal(random, RoundUpToPanel(n));
    matrix = PackedMatrix(n, k, type, [&](int row) {
      return SourceRow{&weights[static_cast<size_t>(row) * k], SourceType::kFloat32};
    });
  }

  std::vector<float> Run(const Kernels& kernels, const std::vector<float>& x, int rows,
                         Epilogue epilogue, int columns) const {
    GroupedRows quantized(rows, k);
    for (int row = 0; row < rows; ++row) {
      quantized.Quantize(*kernels.grouped, &x[static_cast<size_t>(row) * k], k, row, rows);
    }
    std::vector<float> out(static_cast<size_t>(rows) * columns, 0.25f);
    // In two parts, as two threads take them.
    const int first = matrix.panels() / 2;
    for (const auto& [begin, count] :
         {std::pair(0, first), std::pair(first, matrix.panels() - first)}) {
      matrix.MultiplyGrouped(kernels, quantized, rows, begin, count, epilogue, bias.data(),
                             out.data(), columns, columns);
    }
    return out;
  }

  int n;
  int k;
  std::vector<float> weights;
  std::vector<float> bias;
  PackedMatrix matrix;
};

class PackedGrouped : public ::testing::TestWithParam<WeightType> {};

INSTANTIATE_TEST_SUITE_P(Types, PackedGrouped,
                         ::testing::Values(WeightType::kInt4, WeightType::kInt8Grouped),
                         [](const auto& info) {
                           return info.param == WeightType::kInt4 ? "Int4" : "Int8";
                         });

TEST_P(PackedGrouped, IsCloseToTheProductInFloatingPoint) {
  std::mt19937 random(9);
  Problem problem(67, 300, GetParam(), random);
  const std::vector<float> x = Normal(random, 3 * 300);
  const std::vector<float> out = problem.Run(BestKernels(), x, 3, Epilogue::kStore, 67);
  double error = 0;
  for (int i = 0; i < 3 * 67; ++i) {
    double exact = problem.bias[i % 67];
    for (int j = 0; j < 300; ++j) {
      exact += static_cast<double>(x[i / 67 * 300 + j]) * problem.weights[i % 67 * 300 + j];
    }
    error += (out[i] - exact) * (out[i] - exact);
  }
  // A sum of 300 products is about 17. A weight of 4 bits is off by up to half of 4 / 15, one of 8
  // bits and an activation by up to half of 2 / 127.
  const double relative = std::sqrt(error / (3 * 67)) / 17;
  EXPECT_LT(relative, GetParam() == WeightType::kInt4 ? 0.1 : 0.01);
  EXPECT_GT(relative, GetParam() == WeightType::kInt4 ? 0.02 : 0.001);  // it is rounded
  EXPECT_FALSE(problem.matrix.exact());
}

TEST_P(PackedGrouped, ColumnsComeBackAsTheyAreMultiplied) {
  std::mt19937 random(10);
  for (int k : {9, 70}) {
    Problem problem(70, k, GetParam(), random);
    for (int column : {0, 15, 16, 31, 32, 69}) {
      std::vector<float> out(k);
      problem.matrix.ReadColumn(column, out.data());
      for (int i = 0; i < k; ++i) {
        std::vector<float> x(k);
        x[i] = 127;  // an integer of activations whose scale is 1
        const float product = problem.Run(BestKernels(), x, 1, Epilogue::kStore, 70)[column];
        ASSERT_NEAR(product, 127 * out[i] + problem.bias[column], 1e-4) << column << " " << i;
        ASSERT_NEAR(out[i], problem.weights[column * k + i], 0.4);
      }
    }
  }
}

TEST_P(PackedGrouped, SameBitsOnEveryPathForAnyRowsAndEpilogue) {
  std::mt19937 random(11);
  for (int n : {5, 32, 200}) {
    Problem problem(n, 70, GetParam(), random);
    const std::vector<float> x = Normal(random, 20 * 70);
    for (Epilogue epilogue : {Epilogue::kStore, Epilogue::kAdd, Epilogue::kSwiGlu}) {
      const int columns = epilogue == Epilogue::kSwiGlu ? (n + 1) / 2 : n;
      std::vector<float> alone;  // each row by itself
      for (int row = 0; row < 20; ++row) {
        std::vector<float> one(x.begin() + row * 70, x.begin() + (row + 1) * 70);
        one = problem.Run(kPortableKernels, one, 1, epilogue, columns);
        alone.insert(alone.end(), one.begin(), one.end());
      }
      for (const Kernels* kernels : SupportedKernels()) {
        for (int rows = 1; rows <= 20; ++rows) {
          const std::vector<float> out = problem.Run(*kernels, x, rows, epilogue, columns);
          ASSERT_EQ(std::memcmp(out.data(), alone.data(), out.size() * sizeof(float)), 0)
              << kernels->name << ", " << rows << " rows, epilogue " << static_cast<int>(epilogue);
        }
      }
    }
  }
}

TEST_P(PackedGrouped, WhatIsNotFiniteShows) {
  std::mt19937 random(12);
  Problem problem(32, 40, GetParam(), random);
  std::vector<float> x = Normal(random, 40);
  x[17] = NAN;
  for (const Kernels* kernels : SupportedKernels()) {
    for (float value : problem.Run(*kernels, x, 1, Epilogue::kStore, 32)) {
      EXPECT_TRUE(std::isnan(value)) << kernels->name;
    }
  }
}

}  // namespace
}  // namespace tandem::model::cpu::grouped_test
