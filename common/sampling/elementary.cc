#include "common/sampling/elementary.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "common/base/check.h"

namespace tandem::sampling {
namespace {

// Two lanes are what every x86-64 processor has. Vectors of GCC and clang: element by element,
// IEEE.
using Doubles = double __attribute__((vector_size(16)));
using Integers = int64_t __attribute__((vector_size(16)));
constexpr size_t kLanes = 2;
constexpr size_t kSums = 4;  // independent sums, so that additions need not wait for each other

// exp(x) = 2^k exp(r), k the integer nearest to x / ln 2, |r| <= 0.3466. The Taylor polynomial of
// degree 12 leaves out r^13/13! < 1.7e-16. x >= kMinExponent keeps 2^k normal.
[[gnu::always_inline]] inline Doubles ExpLanes(Doubles x) {
  const Doubles min = {kMinExponent, kMinExponent};
  const Integers zero_where = x < min;
  x = x < min ? min : x;
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  constexpr double kLn2High = 0x1.62e42fee00000p-1;  // 32 bits: times k it is exact
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  constexpr double kRound = 0x1.8p52;  // adding it rounds to an integer, in the low bits
  const Doubles shifted = x * kLog2E + kRound;
  const Doubles k = shifted - kRound;
  const Doubles r = (x - k * kLn2High) - k * kLn2Low;
  // Estrin's scheme: the lanes wait for four steps instead of twelve.
  const Doubles r2 = r * r;
  const Doubles r4 = r2 * r2;
  const Doubles terms0 = (r + 1.0) + r2 * (r * (1.0 / 6) + 0.5);
  const Doubles terms4 = (r * (1.0 / 120) + 1.0 / 24) + r2 * (r * (1.0 / 5040) + 1.0 / 720);
  const Doubles terms8 = (r * (1.0 / 362880) + 1.0 / 40320) +
                         r2 * (r * (1.0 / 39916800) + 1.0 / 3628800) + r4 * (1.0 / 479001600);
  const Doubles sum = terms0 + r4 * (terms4 + r4 * terms8);
  Integers bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  bits = (bits + 1023) << 52;
  Doubles power;
  std::memcpy(&power, &bits, sizeof(power));
  const Doubles zero = {0, 0};
  return zero_where ? zero : sum * power;
}

[[gnu::always_inline]] inline Doubles Load(const float* from) {
#ifdef __SSE2__
  double two_floats;  // GCC 12 converts the general form one by one
  std::memcpy(&two_floats, from, sizeof(two_floats));
  return _mm_cvtps_pd(_mm_castpd_ps(_mm_set_sd(two_floats)));
#else
  return Doubles{from[0], from[1]};
#endif
}

}  // namespace

double Exp(double x) {
  const Doubles argument = {x, kMinExponent};
  return ExpLanes(argument)[0];
}

double ExpAll(absl::Span<const float> logits, float largest, double scale,
              absl::Span<double> values) {
  TANDEM_CHECK(logits.size() == values.size());
  Doubles sums[kSums] = {};
  const float* in = logits.data();
  double* out = values.data();
  size_t i = 0;
  const double shift = largest;
  for (; i + kSums * kLanes <= logits.size(); i += kSums * kLanes) {
    for (size_t s = 0; s < kSums; ++s) {
      const size_t at = i + s * kLanes;
      const Doubles e = ExpLanes((Load(in + at) - shift) * scale);
      std::memcpy(out + at, &e, sizeof(e));
      sums[s] += e;
    }
  }
  for (size_t s = 0; i < logits.size(); i += kLanes, ++s) {
    const size_t count = std::min(kLanes, logits.size() - i);
    Doubles x = {in[i], -std::numeric_limits<double>::infinity()};  // a lane without a logit
    if (count == kLanes) x[1] = in[i + 1];
    x -= shift;
    const Doubles e = ExpLanes(x * scale);
    std::memcpy(out + i, &e, count * sizeof(double));
    sums[s % kSums] += e;
  }
  const Doubles all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return all[0] + all[1];
}

bool ScaleAll(double factor, absl::Span<double> values) {
  Integers zero = {};
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    Doubles x;
    std::memcpy(&x, values.data() + i, sizeof(x));
    x *= factor;
    zero |= x == 0;
    std::memcpy(values.data() + i, &x, sizeof(x));
  }
  bool any = (zero[0] | zero[1]) != 0;
  for (; i < values.size(); ++i) {
    values[i] *= factor;
    any |= values[i] == 0;
  }
  return any;
}

double Log(double y) {
  // y = m 2^e with m in [1/sqrt 2, sqrt 2), log m = 2 atanh(s), s = (m - 1)/(m + 1), |s| <= 0.1716.
  // The series up to s^21 leaves out less than 1e-17 of it.
  uint64_t bits;
  std::memcpy(&bits, &y, sizeof(bits));
  constexpr uint64_t kSqrtHalf = 0x3fe6'a09e'667f'3bcd;  // bits of 1/sqrt 2
  const int64_t e = static_cast<int64_t>(bits - kSqrtHalf) >> 52;
  bits -= static_cast<uint64_t>(e) << 52;
  double m;
  std::memcpy(&m, &bits, sizeof(m));
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
