#include "model/cpu/elementwise.h"

#include <cmath>

namespace tandem::model::cpu {
namespace {

// Of term(i) for i < n: 16 lanes (index modulo 16), then 8 + 8, 4 + 4, 2 + 2, 1 + 1.
template <class Term>
float Sum(int n, const Term& term) {
  float lanes[kLanes] = {};
  for (int i = 0; i < n; ++i) lanes[i % kLanes] += term(i);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

// Calls block(x, count, e) for blocks of at most 16 values, with e[i] = exp(exponent(x[i])).
template <class Exponent, class Block>
void WithExp(const Kernels& kernels, const float* x, int n, const Exponent& exponent,
             const Block& block) {
  for (int first = 0; first < n; first += kLanes) {
    const int count = n - first < kLanes ? n - first : kLanes;
    float e[kLanes] = {};
    for (int i = 0; i < count; ++i) e[i] = exponent(x[first + i]);
    kernels.exp(e, kLanes, e);
    for (int i = 0; i < count; ++i) block(first + i, e[i]);
  }
}

}  // namespace

void LayerNorm(const float* x, const float* weight, const float* bias, int n, float epsilon,
               float* out) {
  const float mean = Sum(n, [&](int i) { return x[i]; }) / static_cast<float>(n);
  const float variance =
      Sum(n, [&](int i) { return (x[i] - mean) * (x[i] - mean); }) / static_cast<float>(n);
  const float scale = 1.0f / std::sqrt(variance + epsilon);
  for (int i = 0; i < n; ++i) out[i] = (x[i] - mean) * scale * weight[i] + bias[i];
}

void RmsNorm(const float* x, const float* weight, int n, float epsilon, float* out) {
  const float mean = Sum(n, [&](int i) { return x[i] * x[i]; }) / static_cast<float>(n);
  const float scale = 1.0f / std::sqrt(mean + epsilon);
  for (int i = 0; i < n; ++i) out[i] = weight[i] * (x[i] * scale);
}

void Silu(const Kernels& kernels, const float* x, int n, float* out) {
  WithExp(
      kernels, x, n, [](float v) { return -v; },
      [&](int i, float e) { out[i] = x[i] / (1.0f + e); });
}

// x/2 · (1 + tanh(u)) = x / (1 + exp(-2u)), u = sqrt(2/pi) · (x + 0.044715 x³)
void GeluTanh(const Kernels& kernels, const float* x, int n, float* out) {
  WithExp(
      kernels, x, n, [](float v) { return -1.59576912f * (v + 0.044715f * (v * v * v)); },
      [&](int i, float e) { out[i] = x[i] / (1.0f + e); });
}

// x/2 · (1 + erf(x / sqrt 2)). For z >= 0, erfc(z) is P(t) · exp(-z²), t = 1 / (1 + 0.3275911 z):
// Abramowitz and Stegun, 7.1.26, off by at most 1.5e-7.
void Gelu(const Kernels& kernels, const float* x, int n, float* out) {
  WithExp(
      kernels, x, n, [](float v) { return -0.5f * (v * v); },
      [&](int i, float e) {
        const float v = x[i];
        const float t = 1.0f / (1.0f + 0.3275911f * 0.707106781f * std::fabs(v));
        float p = 1.061405429f;
        p = p * t - 1.453152027f;
        p = p * t + 1.421413741f;
        p = p * t - 0.284496736f;
        p = p * t + 0.254829592f;
        const float complement = p * t * e;
        out[i] = 0.5f * v * (v < 0 ? complement : 2.0f - complement);
      });
}

void Relu(const float* x, int n, float* out) {
  for (int i = 0; i < n; ++i) out[i] = x[i] > 0 ? x[i] : 0.0f;
}

}  // namespace tandem::model::cpu
