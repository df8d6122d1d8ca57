#include "model/cpu/elementwise.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace tandem::model::cpu {
namespace {

using Activation = void (*)(const Kernels&, const float*, int, float*);

// On the whole range that matters, for numbers of values that fill blocks and that do not.
void ExpectIs(Activation activation, double (*exact)(double), double tolerance) {
  std::vector<float> x;
  for (float v = -12; v <= 12; v += 0.01f) x.push_back(v);
  x.push_back(0.0f);
  x.push_back(-90.0f);
  x.push_back(90.0f);
  const int n = static_cast<int>(x.size());
  std::vector<float> wanted(n);
  activation(kPortableKernels, x.data(), n, wanted.data());
  for (int i = 0; i < n; ++i) {
    ASSERT_NEAR(wanted[i], exact(x[i]), tolerance * (1 + std::abs(x[i]))) << x[i];
  }
  for (const Kernels* kernels : SupportedKernels()) {
    std::vector<float> out = x;
    activation(*kernels, out.data(), n, out.data());
    EXPECT_EQ(out, wanted) << kernels->name;
    activation(*kernels, &x[5], 3, out.data());
    for (int i = 0; i < 3; ++i) EXPECT_EQ(out[i], wanted[5 + i]) << kernels->name;
  }
}

TEST(Elementwise, ActivationsAreWhatTheirNamesSay) {
  ExpectIs(
      Silu, [](double x) { return x / (1 + std::exp(-x)); }, 3e-7);
  ExpectIs(
      Gelu, [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }, 3e-7);
  ExpectIs(
      GeluTanh,
      [](double x) {
        return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
      },
      3e-7);
  const std::vector<float> x = {-1.5f, 0.0f, 2.5f};
  std::vector<float> out(3);
  Relu(x.data(), 3, out.data());
  EXPECT_EQ(out, (std::vector<float>{0.0f, 0.0f, 2.5f}));
}

TEST(Elementwise, NormsArePlainArithmetic) {
  for (int n : {1, 6, 16, 33, 128}) {
    std::vector<float> x(n), weight(n), bias(n), layer(n), rms(n);
    double mean = 0;
    double squares = 0;
    for (int i = 0; i < n; ++i) {
      x[i] = static_cast<float>(std::sin(3.0 * i) + 0.5);
      weight[i] = static_cast<float>(1 + 0.1 * i);
      bias[i] = static_cast<float>(0.01 * i);
      mean += x[i] / static_cast<double>(n);
      squares += x[i] * static_cast<double>(x[i]) / n;
    }
    double variance = 0;
    for (int i = 0; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean) / n;
    LayerNorm(x.data(), weight.data(), bias.data(), n, 1e-5f, layer.data());
    RmsNorm(x.data(), weight.data(), n, 1e-5f, rms.data());
    for (int i = 0; i < n; ++i) {
      EXPECT_NEAR(layer[i], (x[i] - mean) / std::sqrt(variance + 1e-5) * weight[i] + bias[i], 2e-5);
      EXPECT_NEAR(rms[i], x[i] / std::sqrt(squares + 1e-5) * weight[i], 2e-5);
    }
  }
}

}  // namespace
}  // namespace tandem::model::cpu
