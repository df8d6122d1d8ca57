// Products in whole numbers: the same integers on every instruction set, the right ones at the ends
// of their ranges, and the arithmetic around them as int8.h defines it.
#include "model/cpu/int8.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "model/cpu/kernels.h"
#include "model/cpu/packed_matrix.h"
#include "tests/model/cpu/normal_values.h"

namespace tandem::model::cpu {
namespace {

struct Row {
  std::vector<int8_t> integers;
  float scale = -1;
  int32_t sum = -1;
};

Row Quantized(const Int8Kernels& kernels, const std::vector<float>& x) {
  const int k = static_cast<int>(x.size());
  Row row;
  row.integers.assign(Int8Groups(k) * kInt8Group, 99);
  kernels.quantize(x.data(), k, row.integers.data(), &row.scale, &row.sum);
  return row;
}

bool SameBits(float a, float b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

TEST(Quantize, IsTheNearestIntegerOfTheRowsScale) {
  std::mt19937 random(1);
  for (int k : {1, 3, 4, 31, 32, 33, 100, 256}) {
    const std::vector<float> x = Normal(random, k, 3.0f);
    const Row row = Quantized(kPortableInt8Kernels, x);
    float largest = 0;
    for (float value : x) largest = std::max(largest, std::fabs(value));
    EXPECT_EQ(row.scale, largest / 127.0f);
    int32_t sum = 0;
    for (int i = 0; i < k; ++i) {
      const double exact = static_cast<double>(x[i]) * (127.0f / largest);
      ASSERT_EQ(row.integers[i], std::nearbyint(exact)) << i;
      sum += row.integers[i];
    }
    for (size_t i = k; i < row.integers.size(); ++i) EXPECT_EQ(row.integers[i], 0);
    EXPECT_EQ(row.sum, sum);
  }
  // Halves go to the even one.
  EXPECT_EQ(Quantized(kPortableInt8Kernels, {127.0f, 0.5f, 1.5f, -2.5f, 3.5f}).integers,
            (std::vector<int8_t>{127, 0, 2, -2, 4, 0, 0, 0}));
}

TEST(Quantize, TheSameOnEveryInstructionSet) {
  std::mt19937 random(2);
  std::vector<std::vector<float>> rows;
  for (int k : {1, 4, 31, 32, 33, 64, 67, 96, 256, 1000}) {
    rows.push_back(Normal(random, k, std::ldexp(1.0f, static_cast<int>(random() % 40) - 20)));
    rows.emplace_back(k, 0.0f);
    rows.emplace_back(k, -1e-39f);  // its reciprocal is infinite
    for (float odd : {NAN, INFINITY, -INFINITY}) {
      rows.push_back(Normal(random, k));
      rows.back()[random() % k] = odd;
    }
    std::vector<float> halves(k, 127.0f);  // ties
    for (int i = 1; i < k; ++i) halves[i] = static_cast<float>(random() % 254) - 126.5f;
    rows.push_back(halves);
  }
  for (const std::vector<float>& x : rows) {
    const Row wanted = Quantized(kPortableInt8Kernels, x);
    const bool finite = std::all_of(x.begin(), x.end(), [](float v) { return std::isfinite(v); });
    EXPECT_EQ(std::isnan(wanted.scale), !finite);
    for (const Kernels* kernels : SupportedKernels()) {
      const Row row = Quantized(*kernels->int8, x);
      ASSERT_EQ(row.integers, wanted.integers) << kernels->int8->name << " " << x.size();
      ASSERT_EQ(row.sum, wanted.sum) << kernels->int8->name;
      ASSERT_TRUE(SameBits(row.scale, wanted.scale) || (!finite && std::isnan(row.scale)));
    }
  }
}

// Rows of activations and a panel's weights; every sum against plain arithmetic in 64 bits.
void ExpectSums(const std::vector<int8_t>& x, const std::vector<int8_t>& weights, int rows,
                int groups) {
  const size_t stride = static_cast<size_t>(groups) * kInt8Group;
  std::vector<int32_t> sums(rows);
  std::vector<int64_t> wanted(static_cast<size_t>(rows) * 32);
  for (int row = 0; row < rows; ++row) {
    for (size_t i = 0; i < stride; ++i) {
      const int8_t value = x[row * stride + i];
      sums[row] += value;
      for (int column = 0; column < 32; ++column) {
        const size_t at = (i / kInt8Group * 32 + column) * kInt8Group + i % kInt8Group;
        wanted[row * 32 + column] += int64_t{value} * weights[at];
      }
    }
  }
  int32_t negatives[32] = {};
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] < 0) negatives[i / kInt8Group % 32] -= weights[i];
  }
  std::vector<int8_t> panel(kInt8PanelHeader);
  std::memcpy(panel.data(), negatives, sizeof(negatives));
  panel.insert(panel.end(), weights.begin(), weights.end());
  for (const Kernels* kernels : SupportedKernels()) {
    int32_t out[kMaxInt8Rows][32];
    kernels->int8->multiply(x.data(), stride, sums.data(), rows, groups, panel.data(), out);
    for (int i = 0; i < rows * 32; ++i) {
      ASSERT_EQ(out[i / 32][i % 32], wanted[i]) << kernels->int8->name << ", " << rows << " rows";
    }
  }
}

TEST(Multiply, TheSumsAreExactOnEveryInstructionSet) {
  std::mt19937 random(3);
  for (int rows = 1; rows <= kMaxInt8Rows; ++rows) {
    for (int groups : {1, 2, 7, 64, 128, 129, 300}) {
      std::vector<int8_t> x(static_cast<size_t>(rows) * groups * kInt8Group);
      std::vector<int8_t> weights(static_cast<size_t>(groups) * 128);
      for (int8_t& value : x) value = static_cast<int8_t>(static_cast<int>(random() % 255) - 127);
      for (int8_t& value : weights) value = static_cast<int8_t>(random() % 256);
      ExpectSums(x, weights, rows, groups);
    }
  }
}

TEST(Multiply, TheLargestSumsFit) {
  const int groups = kMaxInt8Inputs / kInt8Group;
  for (int x : {127, -127}) {
    for (int w : {127, -128}) {
      ExpectSums(std::vector<int8_t>(kMaxInt8Inputs, static_cast<int8_t>(x)),
                 std::vector<int8_t>(static_cast<size_t>(groups) * 128, static_cast<int8_t>(w)), 1,
                 groups);
    }
  }
}

struct Problem {
  Problem(int n_in, int k_in, std::mt19937& random)
      : n(n_in), k(k_in), weights(Normal(random, static_cast<size_t>(n_in) * k_in)) {
    bias = Normal(random, RoundUpToPanel(n));
    matrix = PackedMatrix(n, k, WeightType::kInt8, [&](int row) {
      return SourceRow{&weights[static_cast<size_t>(row) * k], SourceType::kFloat32};
    });
  }

  std::vector<float> Run(const Kernels& kernels, const std::vector<float>& x, int rows,
                         Epilogue epilogue, int columns) const {
    QuantizedRows quantized(rows, k);
    for (int row = 0; row < rows; ++row) {
      kernels.int8->quantize(&x[static_cast<size_t>(row) * k], k, quantized.row(row),
                             quantized.scales() + row, quantized.sums() + row);
    }
    std::vector<float> out(static_cast<size_t>(rows) * columns, 0.25f);
    matrix.MultiplyInt8(kernels, quantized, rows, 0, matrix.panels(), epilogue, bias.data(),
                        out.data(), columns, columns);
    return out;
  }

  int n;
  int k;
  std::vector<float> weights;
  std::vector<float> bias;
  PackedMatrix matrix;
};

TEST(PackedInt8, IsCloseToTheProductInFloatingPoint) {
  std::mt19937 random(4);
  Problem problem(67, 300, random);
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
  // Both factors are off by up to half a step of about 3 / 127; a sum of 300 products is about 17.
  EXPECT_LT(std::sqrt(error / (3 * 67)), 0.02 * 17);
  EXPECT_GT(error, 0);  // it is rounded
}

TEST(PackedInt8, ColumnsComeBackWithinHalfAStep) {
  std::mt19937 random(5);
  Problem problem(70, 9, random);
  EXPECT_FALSE(problem.matrix.exact());
  for (int row : {0, 15, 16, 31, 32, 69}) {
    std::vector<float> out(9);
    problem.matrix.ReadColumn(row, out.data());
    float largest = 0;
    for (int i = 0; i < 9; ++i)
      largest = std::max(largest, std::fabs(problem.weights[row * 9 + i]));
    for (int i = 0; i < 9; ++i) {
      EXPECT_NEAR(out[i], problem.weights[row * 9 + i], largest / 127 * 0.5001);
    }
  }
}

TEST(PackedInt8, SameBitsOnEveryPathForAnyRowsAndEpilogue) {
  std::mt19937 random(6);
  for (int n : {5, 32, 200}) {
    Problem problem(n, 70, random);
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

// The inner sizes of real layers, and every number of rows that makes other blocks.
TEST(PackedInt8, SameBitsForAnyRowsAtTheSizesOfModels) {
  constexpr int kRows = 64;
  std::mt19937 random(9);
  for (int k : {256, 1000, 4096}) {
    Problem problem(64, k, random);
    const std::vector<float> x = Normal(random, static_cast<size_t>(kRows) * k);
    std::vector<float> alone;  // each row by itself
    for (int row = 0; row < kRows; ++row) {
      const std::vector<float> one(x.begin() + static_cast<int64_t>(row) * k,
                                   x.begin() + static_cast<int64_t>(row + 1) * k);
      const auto out = problem.Run(BestKernels(), one, 1, Epilogue::kStore, 64);
      alone.insert(alone.end(), out.begin(), out.end());
    }
    for (const Kernels* kernels : SupportedKernels()) {
      for (int rows : {1, 2, 3, 5, 8, 13, 16, 31, 33, kRows}) {
        const std::vector<float> out = problem.Run(*kernels, x, rows, Epilogue::kStore, 64);
        ASSERT_EQ(std::memcmp(out.data(), alone.data(), out.size() * sizeof(float)), 0)
            << kernels->name << ", " << rows << " rows of " << k;
      }
    }
  }
}

TEST(PackedInt8, WhatIsNotFiniteShows) {
  std::mt19937 random(7);
  Problem problem(32, 40, random);
  std::vector<float> x = Normal(random, 40);
  x[17] = NAN;
  for (const Kernels* kernels : SupportedKernels()) {
    for (float value : problem.Run(*kernels, x, 1, Epilogue::kStore, 32)) {
      EXPECT_TRUE(std::isnan(value)) << kernels->name;
    }
  }
}

}  // namespace
}  // namespace tandem::model::cpu
