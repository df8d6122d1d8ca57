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

[[gnu::always_inline]] inline Doubles ExpLanes(Doubles x) {
  return ExpFormula<Doubles, Integers>(x);
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

double Log(double y) { return LogFormula(y); }

}  // namespace tandem::sampling
