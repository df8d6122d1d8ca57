// The two 16-bit formats of weights, one value at a time: bf16 (8 bits of exponent) and fp16 (5).
#pragma once

#include <cstdint>
#include <cstring>

namespace tandem::model::cpu {

inline float FloatFromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint32_t BitsOfFloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Exact.
inline float FromBfloat16(uint16_t half) {
  return FloatFromBits(static_cast<uint32_t>(half) << 16);
}

// To the nearest, ties to even; as PyTorch rounds. What is above the largest bf16 by half a step or
// more becomes infinite; a NaN stays one.
inline uint16_t ToBfloat16(float value) {
  const uint32_t bits = BitsOfFloat(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// To the nearest, ties to even; what lies beyond the largest fp16 (65,504) becomes that, a NaN
// stays one.
inline uint16_t ToFloat16(float value) {
  const uint32_t bits = BitsOfFloat(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (size >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7bffu);
  if (size < 0x38800000u) {
    // Subnormal: added to 0.5, its last bit has the weight of the sum's last, 2⁻²⁴.
    const float sum = FloatFromBits(size) + 0.5f;
    return static_cast<uint16_t>(sign | (BitsOfFloat(sum) - 0x3f000000u));
  }
  return static_cast<uint16_t>(sign | ((size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13));
}

// Exact, subnormal numbers too.
inline float FromFloat16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t rest = static_cast<uint32_t>(half & 0x7fffu) << 13;
  if (rest >= 0x0f800000u) return FloatFromBits(sign | 0x7f800000u | (rest & 0x007fffffu));
  // The exponent's bias is 15 here and 127 there; a product with a power of two is exact.
  return FloatFromBits(sign | BitsOfFloat(FloatFromBits(rest) * 0x1p112f));
}

}  // namespace tandem::model::cpu
