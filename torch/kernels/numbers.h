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

// exp(x) for x at most 0, with a relative error below 2e-7; 0 below -87. A NaN stays one.
TANDEM_HOST_DEVICE float Exp(float x) {
  if (!(x >= -87.0f)) return x < -87.0f ? 0 : x;
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
enum class ElementType { kFloat32, kBfloat16, kFloat16 };

struct Float32 {
  using Word = float;
  TANDEM_HOST_DEVICE_INLINE static float Load(Word word) { return word; }
  TANDEM_HOST_DEVICE_INLINE static Word Store(float value) { return value; }
};

// The upper half of a float32; the nearest one, of two the even one. A NaN stays one.
struct Bfloat16 {
  using Word = uint16_t;
  static constexpr bool kIsBfloat16 = true;
  TANDEM_HOST_DEVICE_INLINE static float Load(Word word) {
    return base::BitsAs<float>(static_cast<uint32_t>(word) << 16);
  }
  TANDEM_HOST_DEVICE_INLINE static Word Store(float value) {
    const uint32_t bits = base::BitsAs<uint32_t>(value);
    if (value != value) return static_cast<Word>(bits >> 16 | 0x40);
    return static_cast<Word>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
};

// Half precision of IEEE 754; the nearest number, of two the even one, and infinity from 65520 on.
// A NaN becomes the one that cards give: 0x7fff, and 0x7fffffff as a float32.
struct Float16 {
  using Word = uint16_t;
  static constexpr bool kIsBfloat16 = false;
  TANDEM_HOST_DEVICE_INLINE static float Load(Word word) {
#ifdef __CUDACC_RTC__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(word));
    return value;
#else
    const uint32_t size = word & 0x7fffu;
    if (size > 0x7c00) return base::BitsAs<float>(0x7fffffffu);
    // The exponent's bias is 15 here and 127 there. A product with a power of two is exact.
    const float magnitude = size == 0x7c00 ? base::BitsAs<float>(0x7f800000u)
                                           : base::BitsAs<float>(size << 13) * 0x1p112f;
    return (word & 0x8000) != 0 ? -magnitude : magnitude;
#endif
  }
  TANDEM_HOST_DEVICE_INLINE static Word Store(float value) {
#ifdef __CUDACC_RTC__
    Word word;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(word) : "f"(value));
    return word;
#else
    if (value != value) return 0x7fff;
    const uint32_t bits = base::BitsAs<uint32_t>(value), size = bits & 0x7fffffff;
    uint32_t rounded = 0x7c00;
    if (size < 0x38800000) {
      // Subnormal: the last bit of a sum with 0.5 counts 2^-24, as the result's does.
      rounded = base::BitsAs<uint32_t>(base::BitsAs<float>(size) + 0.5f) - 0x3f000000;
    } else if (size < 0x477ff000) {
      rounded = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
    }
    return static_cast<Word>((bits >> 16 & 0x8000) | rounded);
#endif
  }
};

// 16 bytes, which a card loads at once.
struct alignas(16) Quad {
  uint32_t words[4];
};
template <typename Element>
inline constexpr uint32_t kPerQuad = sizeof(Quad) / sizeof(typename Element::Word);

template <typename Element>
TANDEM_HOST_DEVICE_INLINE float ElementOf(const Quad& quad, uint32_t i) {
  if constexpr (sizeof(typename Element::Word) == sizeof(uint32_t)) {
    return Element::Load(base::BitsAs<float>(quad.words[i]));
  } else {
    return Element::Load(static_cast<uint16_t>(quad.words[i / 2] >> (16 * (i % 2))));
  }
}

// Memory as another type than it was written in. A card needs it aligned to that type.
template <typename T>
TANDEM_HOST_DEVICE_INLINE T LoadAs(const void* from) {
#ifdef __CUDACC_RTC__
  return *static_cast<const T*>(from);
#else
  T value;
  __builtin_memcpy(&value, from, sizeof(T));
  return value;
#endif
}
template <typename T>
TANDEM_HOST_DEVICE_INLINE void StoreAs(void* to, const T& value) {
#ifdef __CUDACC_RTC__
  *static_cast<T*>(to) = value;
#else
  __builtin_memcpy(to, &value, sizeof(T));
#endif
}

}  // namespace tandem::kernels
