// Every instruction set's kernels against each other, bit for bit, and against plain double
// arithmetic.
#include "model/cpu/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "model/cpu/half.h"
#include "model/cpu/packed_matrix.h"
#include "tests/model/cpu/normal_values.h"

namespace tandem::model::cpu::kernels_test {
namespace {

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

SourceType SourceOf(WeightType type) {
  if (type == WeightType::kFloat16) return SourceType::kFloat16;
  return type == WeightType::kBfloat16 ? SourceType::kBfloat16 : SourceType::kFloat32;
}

// A random matrix [n, k] with a bias, packed; 16-bit values are kept exactly as they are.
struct Problem {
  Problem(int n_in, int k_in, WeightType type, std::mt19937& random)
      : n(n_in), k(k_in), weights(Normal(random, static_cast<size_t>(n_in) * k_in)) {
    bias = Normal(random, RoundUpToPanel(n));
    std::vector<uint16_t> halves(weights.size());
    for (size_t i = 0; i < weights.size(); ++i) {
      if (type == WeightType::kFloat32) break;
      // fp16: below 2 in size, some of them subnormal.
      halves[i] = type == WeightType::kBfloat16 ? ToBfloat16(weights[i]) : random() & 0xbfff;
      weights[i] = ReadValue(halves.data(), SourceOf(type), static_cast<int64_t>(i));
    }
    matrix = PackedMatrix(n, k, type, [&](int row) {
      const size_t first = static_cast<size_t>(row) * k;
      if (type == WeightType::kFloat32) return SourceRow{&weights[first], SourceType::kFloat32};
      return SourceRow{&halves[first], SourceOf(type)};
    });
  }

  std::vector<float> Run(const Kernels& kernels, const std::vector<float>& x, int rows,
                         Epilogue epilogue, int columns, bool with_bias) const {
    std::vector<float> out(static_cast<size_t>(rows) * columns, 0.25f);
    matrix.Multiply(kernels, x.data(), k, rows, 0, matrix.panels(), epilogue,
                    with_bias ? bias.data() : nullptr, out.data(), columns, columns);
    return out;
  }

  int n;
  int k;
  std::vector<float> weights;
  std::vector<float> bias;
  PackedMatrix matrix;
};

class Multiply : public ::testing::TestWithParam<WeightType> {};

TEST_P(Multiply, IsTheInOrderFusedSum) {
  std::mt19937 random(1);
  Problem problem(67, 45, GetParam(), random);
  std::vector<float> x = Normal(random, 3 * 45);
  for (const Kernels* kernels : SupportedKernels()) {
    std::vector<float> out = problem.Run(*kernels, x, 3, Epilogue::kStore, 67, false);
    for (int row = 0; row < 3; ++row) {
      for (int column = 0; column < 67; ++column) {
        float sum = 0.0f;
        for (int i = 0; i < 45; ++i) {
          sum = std::fma(x[row * 45 + i], problem.weights[column * 45 + i], sum);
        }
        ASSERT_EQ(out[row * 67 + column], sum) << kernels->name << " " << row << " " << column;
      }
    }
  }
}

TEST_P(Multiply, SameBitsOnEveryPathForAnyRowsAndEpilogue) {
  std::mt19937 random(2);
  // 300 inputs are more than some kernels take at once.
  for (const auto& [n, k] : {std::pair(5, 70), {32, 300}, {200, 70}}) {
    Problem problem(n, k, GetParam(), random);
    std::vector<float> x = Normal(random, 20 * static_cast<size_t>(k));
    for (Epilogue epilogue :
         {Epilogue::kStore, Epilogue::kAdd, Epilogue::kAccumulate, Epilogue::kSwiGlu}) {
      const bool with_bias = epilogue != Epilogue::kAccumulate;
      const int columns = epilogue == Epilogue::kSwiGlu ? (n + 1) / 2 : n;
      std::vector<float> alone;  // each row by itself
      for (int row = 0; row < 20; ++row) {
        std::vector<float> one(x.begin() + row * k, x.begin() + (row + 1) * k);
        one = problem.Run(kPortableKernels, one, 1, epilogue, columns, with_bias);
        alone.insert(alone.end(), one.begin(), one.end());
      }
      for (const Kernels* kernels : SupportedKernels()) {
        for (int rows = 1; rows <= 20; ++rows) {
          std::vector<float> wanted(alone.begin(), alone.begin() + rows * columns);
          ASSERT_TRUE(
              SameBits(problem.Run(*kernels, x, rows, epilogue, columns, with_bias), wanted))
              << kernels->name << ", " << rows << " rows, epilogue " << static_cast<int>(epilogue);
        }
      }
    }
  }
}

// The inner sizes of real layers, and every number of rows that makes other blocks.
TEST_P(Multiply, SameBitsForAnyRowsAtTheSizesOfModels) {
  constexpr int kRows = 70;
  std::mt19937 random(9);
  for (int k : {256, 1000, 4096}) {
    Problem problem(64, k, GetParam(), random);
    const std::vector<float> x = Normal(random, static_cast<size_t>(kRows) * k);
    std::vector<float> alone;  // each row by itself
    for (int row = 0; row < kRows; ++row) {
      const std::vector<float> one(x.begin() + static_cast<int64_t>(row) * k,
                                   x.begin() + static_cast<int64_t>(row + 1) * k);
      const auto out = problem.Run(BestKernels(), one, 1, Epilogue::kStore, 64, true);
      alone.insert(alone.end(), out.begin(), out.end());
    }
    for (const Kernels* kernels : SupportedKernels()) {
      for (int rows : {1, 2, 3, 5, 8, 13, 16, 31, 64, kRows}) {
        const std::vector<float> wanted(alone.begin(), alone.begin() + rows * 64);
        ASSERT_TRUE(SameBits(problem.Run(*kernels, x, rows, Epilogue::kStore, 64, true), wanted))
            << kernels->name << ", " << rows << " rows of " << k;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Multiply,
                         ::testing::Values(WeightType::kFloat32, WeightType::kBfloat16,
                                           WeightType::kFloat16));

TEST(Multiply, PartsOfTheColumnsGiveTheWhole) {
  std::mt19937 random(3);
  Problem problem(300, 33, WeightType::kFloat32, random);
  std::vector<float> x = Normal(random, 5 * 33);
  const std::vector<float> whole = problem.Run(BestKernels(), x, 5, Epilogue::kStore, 300, true);
  std::vector<float> parts(whole.size());
  for (int panel = 0; panel < problem.matrix.panels(); panel += 3) {
    int count = std::min(3, problem.matrix.panels() - panel);
    problem.matrix.Multiply(BestKernels(), x.data(), 33, 5, panel, count, Epilogue::kStore,
                            problem.bias.data(), parts.data(), 300, 300);
  }
  EXPECT_TRUE(SameBits(parts, whole));
}

TEST(Exp, IsAccurateAndTheSameEverywhere) {
  std::vector<float> x;
  for (int i = 0; i < 16 * 4000; ++i) x.push_back(-90.0f + 180.0f * i / (16 * 4000));
  std::vector<float> wanted(x.size());
  kPortableKernels.exp(x.data(), static_cast<int>(x.size()), wanted.data());
  for (size_t i = 0; i < x.size(); ++i) {
    double exact = std::exp(static_cast<double>(std::min(88.0f, std::max(-87.0f, x[i]))));
    ASSERT_NEAR(wanted[i] / exact, 1.0, 3e-7) << x[i];
  }
  for (const Kernels* kernels : SupportedKernels()) {
    std::vector<float> out(x.size());
    kernels->exp(x.data(), static_cast<int>(x.size()), out.data());
    EXPECT_TRUE(SameBits(out, wanted)) << kernels->name;
  }
}

TEST(Softmax, SameBitsAndNothingPastTheEnd) {
  std::mt19937 random(4);
  for (int n : {1, 2, 15, 16, 17, 31, 32, 33, 255, 256, 300}) {
    std::vector<float> scores = Normal(random, RoundUpToPanel(n), 4.0f);
    for (size_t i = n; i < scores.size(); ++i) scores[i] = std::nanf("");  // must not matter
    std::vector<float> wanted = scores;
    const float sum = kPortableKernels.softmax(wanted.data(), n);
    double exact = 0;
    for (int i = 0; i < n; ++i) exact += wanted[i];
    EXPECT_NEAR(sum / exact, 1.0, 1e-6);
    EXPECT_EQ(*std::max_element(wanted.begin(), wanted.begin() + n), 1.0f);
    for (size_t i = n; i < wanted.size(); ++i) EXPECT_EQ(wanted[i], 0.0f);
    for (const Kernels* kernels : SupportedKernels()) {
      std::vector<float> out = scores;
      EXPECT_EQ(kernels->softmax(out.data(), n), sum) << kernels->name << " " << n;
      EXPECT_TRUE(SameBits(out, wanted)) << kernels->name << " " << n;
    }
  }
}

TEST(RmsNorm, SameBitsAndRight) {
  std::mt19937 random(5);
  for (int n : {5, 16, 100, 256}) {
    const int padded = RoundUpToPanel(n);
    std::vector<float> x = Normal(random, n);
    std::vector<float> weight = Normal(random, n);
    x.resize(padded);
    weight.resize(padded);
    double squares = 0;
    for (float value : x) squares += static_cast<double>(value) * value;
    std::vector<float> wanted(padded, 9.0f);
    kPortableKernels.rms_norm(x.data(), weight.data(), n, padded, 1e-5f, wanted.data());
    for (int i = 0; i < padded; ++i) {
      EXPECT_NEAR(wanted[i], weight[i] * x[i] / std::sqrt(squares / n + 1e-5), 2e-6);
    }
    for (const Kernels* kernels : SupportedKernels()) {
      std::vector<float> out(padded);
      kernels->rms_norm(x.data(), weight.data(), n, padded, 1e-5f, out.data());
      EXPECT_TRUE(SameBits(out, wanted)) << kernels->name << " " << n;
    }
  }
}

TEST(ReadValue, Float16) {
  const uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x8001, 0x03ff, 0x7bff, 0x7c00, 0x0000};
  const float wanted[] = {1.0f,
                          -2.0f,
                          0x1p-24f,
                          -0x1p-24f,
                          1023 * 0x1p-24f,
                          65504.0f,
                          std::numeric_limits<float>::infinity(),
                          0.0f};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(ReadValue(halves, SourceType::kFloat16, i), wanted[i]);
}

TEST(ReadColumn, GivesTheRowBack) {
  std::mt19937 random(6);
  for (WeightType type : {WeightType::kFloat32, WeightType::kBfloat16, WeightType::kFloat16}) {
    Problem problem(70, 9, type, random);
    for (int row : {0, 15, 16, 31, 32, 69}) {
      std::vector<float> out(9);
      problem.matrix.ReadColumn(row, out.data());
      for (int i = 0; i < 9; ++i) EXPECT_EQ(out[i], problem.weights[row * 9 + i]);
    }
  }
}

}  // namespace
}  // namespace tandem::model::cpu::kernels_test
