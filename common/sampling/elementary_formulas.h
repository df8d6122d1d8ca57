// The formulas of elementary.h, for one number and for a vector of them, on the host and on a
// device (host_device.h): the same operations in the same order, so the same bits.
//
// Thread safety: pure functions.
#pragma once

#include "common/base/host_device.h"

namespace tandem::sampling {

// Below this, exp counts as 0 (it would be below 1e-304).
inline constexpr double kMinExponent = -700;

// exp(x), x at most 0; 0 where x is below kMinExponent. Lanes: double, or a vector of doubles;
// Bits: int64_t, or a vector of as many.
//
// exp(x) = 2^k exp(r), k the integer nearest to x / ln 2, |r| <= 0.3466. The Taylor polynomial of
// degree 12 leaves out r^13/13! < 1.7e-16. x >= kMinExponent keeps 2^k normal.
template <typename Lanes, typename Bits>
TANDEM_HOST_DEVICE_INLINE Lanes ExpFormula(Lanes x) {
  const Lanes zero = {};
  const Lanes min = zero + kMinExponent;
  const Bits zero_where = x < min;
  x = x < min ? min : x;
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  constexpr double kLn2High = 0x1.62e42fee00000p-1;  // 32 bits: times k it is exact
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  constexpr double kRound = 0x1.8p52;  // adding it rounds to an integer, in the low bits
  const Lanes shifted = x * kLog2E + kRound;
  const Lanes k = shifted - kRound;
  const Lanes r = (x - k * kLn2High) - k * kLn2Low;
  // Estrin's scheme: the lanes wait for four steps instead of twelve.
  const Lanes r2 = r * r;
  const Lanes r4 = r2 * r2;
  const Lanes terms0 = (r + 1.0) + r2 * (r * (1.0 / 6) + 0.5);
  const Lanes terms4 = (r * (1.0 / 120) + 1.0 / 24) + r2 * (r * (1.0 / 5040) + 1.0 / 720);
  const Lanes terms8 = (r * (1.0 / 362880) + 1.0 / 40320) +
                       r2 * (r * (1.0 / 39916800) + 1.0 / 3628800) + r4 * (1.0 / 479001600);
  const Lanes sum = terms0 + r4 * (terms4 + r4 * terms8);
  const Bits power = (base::BitsAs<Bits>(shifted) + 1023) << 52;
  return zero_where ? zero : sum * base::BitsAs<Lanes>(power);
}

// log(y) for y above 0, normal and finite.
//
// y = m 2^e with m in [1/sqrt 2, sqrt 2), log m = 2 atanh(s), s = (m - 1)/(m + 1), |s| <= 0.1716.
// The series up to s^21 leaves out less than 1e-17 of it.
TANDEM_HOST_DEVICE_INLINE double LogFormula(double y) {
  uint64_t bits = base::BitsAs<uint64_t>(y);
  constexpr uint64_t kSqrtHalf = 0x3fe6'a09e'667f'3bcd;  // bits of 1/sqrt 2
  const int64_t e = static_cast<int64_t>(bits - kSqrtHalf) >> 52;
  bits -= static_cast<uint64_t>(e) << 52;
  const double m = base::BitsAs<double>(bits);
  const double f = m - 1;
  const double s = f / (2 + f);
  const double z = s * s;
  double series = 1.0 / 21;
  for (double odd = 19; odd >= 3; odd -= 2) series = series * z + 1.0 / odd;
  const double log_m = 2 * s + 2 * s * (z * series);
  constexpr double kLn2High = 0x1.62e42fee00000p-1;
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  const double k = static_cast<double>(e);
  return k * kLn2High + (log_m + k * kLn2Low);
}

}  // namespace tandem::sampling
