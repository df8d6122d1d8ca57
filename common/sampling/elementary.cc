#include "common/sampling/elementary.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <cstdint>
#include <cstring>

#include "common/base/check.h"
#include "common/sampling/exp_groups.h"
#include "common/sampling/exp_lanes.h"

namespace tandem::sampling {
namespace {

// Two lanes are what every x86-64 processor has. Vectors of GCC and clang: element by element,
// IEEE.
struct TwoLanes {
  using Doubles = double __attribute__((vector_size(16)));
  using Integers = int64_t __attribute__((vector_size(16)));
  static Doubles Load(const float* from) {
#ifdef __SSE2__
    double two_floats;  // GCC 12 converts the general form one by one
    std::memcpy(&two_floats, from, sizeof(two_floats));
    return _mm_cvtps_pd(_mm_castpd_ps(_mm_set_sd(two_floats)));
#else
    return Doubles{from[0], from[1]};
#endif
  }
};
using Doubles = TwoLanes::Doubles;
using Integers = TwoLanes::Integers;
constexpr size_t kLanes = 2;

}  // namespace

const std::vector<ExpGroups>& SupportedExpGroups() {
  static const std::vector<ExpGroups>* const ways = [] {
    auto* found = new std::vector<ExpGroups>();
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) found->push_back(&ExpGroupsAvx512);
    if (__builtin_cpu_supports("avx2")) found->push_back(&ExpGroupsAvx2);
#endif
    found->push_back(&ExpLanes<TwoLanes>::Groups);
    return found;
  }();
  return *ways;
}

double Exp(double x) {
  const Doubles argument = {x, kMinExponent};
  return ExpFormula<Doubles, Integers>(argument)[0];
}

double ExpAll(absl::Span<const float> logits, float largest, double scale,
              absl::Span<double> values) {
  TANDEM_CHECK(logits.size() == values.size());
  static const ExpGroups exp_groups = SupportedExpGroups().front();
  // Independent sums, so that additions need not wait for each other.
  double sums[kExpGroup] = {};
  const size_t groups = logits.size() / kExpGroup;
  const size_t done = groups * kExpGroup;
  exp_groups(logits.data(), groups, largest, scale, values.data(), sums);
  for (size_t i = done; i < logits.size(); ++i) {
    values[i] = Exp((double{logits[i]} - largest) * scale);
    sums[i - done] += values[i];
  }
  return TotalOf(sums);
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
