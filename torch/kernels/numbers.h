// float32 arithmetic that gives the same bits on a card and on the host, and the types that keys,
// values and products are held in.
//
// Thread safety: pure functions.
#pragma once

#include "common/base/host_device.h"

namespace tandem::kernels {

// a * b + c, rounded once.
TANDEM_HOST_DEVICE_INLINE float Fma(float a, float b, float c) {
#ifdef __CUDACC_RTC__
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

TANDEM_HOST_DEVICE_INLINE float SquareRoot(float x) {
#ifdef __CUDACC_RTC__
  return __fsqrt_rn(x);
#else
  return __builtin_sqrtf(x);
#endif
}

// exp(x) for x at most 0, with a relative error below 2e-7; 0 below -87.
TANDEM_HOST_DEVICE float Exp(float x) {
  if (x < -87.0f) return 0;
  constexpr float kRound = 0x1.8p23f;  // adding it rounds to an integer
  const float k = Fma(x, 0x1.715476p+0f, kRound) - kRound;
  float r = Fma(-k, 0x1.62e400p-1f, x);
  r = Fma(-k, 0x1.7f7d1cp-20f, r);
  float sum = 1.0f / 5040;
  sum = Fma(sum, r, 1.0f / 720);
  sum = Fma(sum, r, 1.0f / 120);
  sum = Fma(sum, r, 1.0f / 24);
  sum = Fma(sum, r, 1.0f / 6);
  sum = Fma(sum, r, 0.5f);
  sum = Fma(sum, r, 1.0f);
  sum = Fma(sum, r, 1.0f);
  return sum * base::BitsAs<float>((static_cast<int32_t>(k) + 127) << 23);
}

// What keys, values and products are held in. Each has a struct of its name: Load is exact, Store
// rounds.
enum class ElementType { kFloat32, kBfloat16 };

struct Float32 {
  using Word = float;
  TANDEM_HOST_DEVICE_INLINE static float Load(Word word) { return word; }
  TANDEM_HOST_DEVICE_INLINE static Word Store(float value) { return value; }
};

// The upper half of a float32; the nearest one, of two the even one. A NaN stays one.
struct Bfloat16 {
  using Word = uint16_t;
  TANDEM_HOST_DEVICE_INLINE static float Load(Word word) {
    return base::BitsAs<float>(static_cast<uint32_t>(word) << 16);
  }
  TANDEM_HOST_DEVICE_INLINE static Word Store(float value) {
    const uint32_t bits = base::BitsAs<uint32_t>(value);
    if (value != value) return static_cast<Word>(bits >> 16 | 0x40);
    return static_cast<Word>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
};

}  // namespace tandem::kernels
