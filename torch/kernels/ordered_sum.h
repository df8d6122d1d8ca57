// Sums of doubles in a given order, one after the other, computed by many threads at once: the same
// bits as the loop on the host.
//
// While a sum stays between two powers of two it is a whole number of ulps, and what a further
// value adds to it is a whole number of ulps as well: the value, rounded. So within such a range
// sums are sums of whole numbers, which may be grouped as one likes. There is one exception. A
// value that lies half-way between two numbers of ulps is rounded to the even sum, so what it adds
// depends on whether the sum before it is odd. A Step therefore says what a run of values adds in
// both cases, and Steps can be grouped, too. Where a sum leaves its range, one thread adds the
// values of its run with the processor's own additions. From 2^-k to 1 that happens k times.
#pragma once

#include "torch/kernels/wide_loads.h"

namespace tandem::kernels {

// What a run of values adds, in ulps of the sum before it, at most kLeaves.
struct Step {
  uint64_t to_even;  // where that sum is even
  uint64_t to_odd;
};

// A sum is below this many ulps of its own; one that gets there leaves its range.
inline constexpr uint64_t kLeaves = uint64_t{1} << 53;

// A double that is at least 0 and finite, as a whole number of ulps.
struct InUlps {
  uint64_t ulps;
  int exponent;  // of the ulp, as in the bits of the double

  TANDEM_HOST_DEVICE static InUlps Of(double value) {
    const uint64_t bits = base::BitsAs<uint64_t>(value);
    const int field = static_cast<int>(bits >> 52);
    const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
    if (field == 0) return {fraction, 1};
    return {fraction | uint64_t{1} << 52, field};
  }
};

// ulps of `exponent`, below kLeaves; of a sum, which is below 2^52 only where its exponent is 1.
TANDEM_HOST_DEVICE double FromUlps(uint64_t ulps, int exponent) {
  if (ulps < uint64_t{1} << 52) return base::BitsAs<double>(ulps);  // subnormal
  return base::BitsAs<double>((ulps & ((uint64_t{1} << 52) - 1)) | static_cast<uint64_t>(exponent)
                                                                       << 52);
}

TANDEM_HOST_DEVICE Step StepOf(double value, int exponent) {
  const InUlps in = InUlps::Of(value);
  const int shift = exponent - in.exponent;
  if (shift < 0) return {kLeaves, kLeaves};
  if (shift == 0) return {in.ulps, in.ulps};
  if (shift > 53) return {0, 0};
  const uint64_t whole = in.ulps >> shift;
  const uint64_t rest = in.ulps & ((uint64_t{1} << shift) - 1);
  const uint64_t half = uint64_t{1} << (shift - 1);
  if (rest == half) return {whole + (whole & 1), whole + (whole & 1 ? 0 : 1)};
  const uint64_t rounded = whole + (rest > half ? 1 : 0);
  return {rounded, rounded};
}

// `first`, and then `second`.
TANDEM_HOST_DEVICE Step Then(const Step& first, const Step& second) {
  Step both;
  both.to_even = first.to_even + (first.to_even & 1 ? second.to_odd : second.to_even);
  both.to_odd = first.to_odd + (first.to_odd & 1 ? second.to_even : second.to_odd);
  if (both.to_even > kLeaves) both.to_even = kLeaves;
  if (both.to_odd > kLeaves) both.to_odd = kLeaves;
  return both;
}

// Shared memory. Sum w of kWays takes the values w, w + kWays, w + 2 kWays, …
template <int kThreads, int kWays>
struct OrderedSums {
  static constexpr uint32_t kNowhere = 0xffff'ffff;

  double sums[kWays];
  uint32_t found;  // kWays 1: the first place whose sum exceeds the target; kNowhere: none does

  // The rest is the algorithm's own.
  double next_sums[kWays];
  uint32_t begin[kWays];  // what was added, counted in values of this way
  uint32_t next_begin[kWays];
  uint32_t unfinished;
  Step steps[2][kThreads];
};

template <int kThreads, int kWays>
TANDEM_HOST_DEVICE void Clear(const Block& block, OrderedSums<kThreads, kWays>& shared) {
  block.Threads([&](int t) {
    if (t < kWays) shared.sums[t] = 0;
    if (t == 0) shared.found = OrderedSums<kThreads, kWays>::kNowhere;
  });
}

// Values that lie one behind the other: of(numbers[i]). A card needs doubles aligned to 16 bytes,
// and readable up to a multiple of them.
template <typename Number, typename Function>
struct InRow {
  using Raw = Number;
  const Number* numbers;
  Function of;

  TANDEM_HOST_DEVICE_INLINE InRow(const Number* in, Function function)
      : numbers(in), of(function) {}
  TANDEM_HOST_DEVICE_INLINE Number Load(uint32_t i) const { return numbers[i]; }
  TANDEM_HOST_DEVICE_INLINE double operator()(uint32_t i) const { return of(Load(i)); }
};
template <typename Values>
inline constexpr bool kDoublesInRow = false;
template <typename Function>
inline constexpr bool kDoublesInRow<InRow<double, Function>> = true;

// What a thread adds at a time of one way, from `first` on, before it needs the first of them; the
// last value stands for those from `size` on.
template <int kRun, int kWays, typename Values>
TANDEM_HOST_DEVICE_INLINE void LoadRun(const Values& values, uint32_t first, uint32_t way,
                                       uint32_t size, typename Values::Raw (&raw)[kRun]) {
  if constexpr (kWays == 1 && kDoublesInRow<Values> && kRun % kNumbersPerQuad<double> == 0) {
    TANDEM_UNROLL
    for (uint32_t k = 0; k < kRun; k += 2) {
      const uint32_t i = first + k < size ? first + k : (size - 1) / 2 * 2;
      const Quad quad = LoadAs<Quad>(values.numbers + i);
      raw[k] = NumberOf<double>(quad, 0);
      raw[k + 1] = NumberOf<double>(quad, 1);
    }
  } else {
    TANDEM_UNROLL
    for (uint32_t k = 0; k < kRun; ++k) {
      const uint32_t i = first + k < size ? first + k : size - 1;
      raw[k] = values.Load(i * kWays + way);
    }
  }
}

// Adds `count` values, each at least 0, to the sums; their totals stay finite. With `target` (kWays
// 1) it looks for the first place whose sum exceeds it, and stops there: the sum is then not to be
// used. kRun: values that a thread adds at a time. scan_in_place: a mistake that tests make.
template <int kRun, int kThreads, int kWays, typename Values>
TANDEM_HOST_DEVICE void AddInOrder(const Block& block, OrderedSums<kThreads, kWays>& shared,
                                   uint32_t count, const Values& values,
                                   const double* target = nullptr, bool scan_in_place = false) {
  constexpr int kLanes = kThreads / kWays;
  constexpr uint32_t kChunk = kLanes * kRun;  // of one way
  const auto size_of = [&](uint32_t way) { return (count + kWays - 1 - way) / kWays; };
  block.Threads([&](int t) {
    if (t < kWays) shared.begin[t] = 0;
    if (t == 0) shared.found = OrderedSums<kThreads, kWays>::kNowhere;
  });
  for (uint32_t chunk = 0; chunk < size_of(0); chunk += kChunk) {
    for (bool unfinished = true; unfinished;) {
      // The run of a thread, without what was added already.
      const auto run = [&](int t, uint32_t& from, uint32_t& to) {
        const uint32_t way = t % kWays;
        from = chunk + static_cast<uint32_t>(t / kWays) * kRun;
        to = from + kRun < size_of(way) ? from + kRun : size_of(way);
        if (from < shared.begin[way]) from = shared.begin[way];
      };
      block.Threads([&](int t) {
        uint32_t from, to;
        run(t, from, to);
        const int exponent = InUlps::Of(shared.sums[t % kWays]).exponent;
        Step step = {0, 0};
        const uint32_t way = t % kWays, first = chunk + static_cast<uint32_t>(t / kWays) * kRun;
        typename Values::Raw raw[kRun];
        // Fewer values than ways leave some of a warp's threads without any: `to` is then 0.
        if (kWays == 1 || size_of(way) > 0) {
          LoadRun<kRun, kWays>(values, first, way, size_of(way), raw);
        }
        AskTogether();
        TANDEM_UNROLL
        for (uint32_t k = 0; k < kRun; ++k) {
          if (first + k < from || first + k >= to) continue;
          step = Then(step, StepOf(values.of(raw[k]), exponent));
        }
        shared.steps[0][t] = step;
      });
      int now = 0;
      TANDEM_NO_UNROLL
      for (int distance = 1; distance < kLanes; distance *= 2) {
        Step* before = shared.steps[now];
        Step* after = shared.steps[scan_in_place ? now : 1 - now];
        block.Threads([&](int t) {
          const int other = t - distance * kWays;
          after[t] = other >= 0 ? Then(before[other], before[t]) : before[t];
        });
        if (!scan_in_place) now = 1 - now;
      }
      const Step* steps = shared.steps[now];
      block.Threads([&](int t) {
        const uint32_t way = t % kWays;
        const InUlps sum = InUlps::Of(shared.sums[way]);
        const auto after = [&](int thread) {
          if (thread < 0) return sum.ulps;
          return sum.ulps + (sum.ulps & 1 ? steps[thread].to_odd : steps[thread].to_even);
        };
        const uint64_t begins = after(t - kWays), ends = after(t);
        if (begins >= kLeaves) return;
        const bool leaves = ends >= kLeaves;
        double walked = FromUlps(begins, sum.exponent);
        uint32_t from, to;
        run(t, from, to);
        const bool looks = target != nullptr && !(walked > *target) &&
                           (leaves || FromUlps(ends, sum.exponent) > *target);
        if (leaves || looks) {
          TANDEM_NO_UNROLL
          for (uint32_t i = from; i < to; ++i) {
            walked += values(i * kWays + way);
            if (looks && walked > *target) {
              shared.found = i;
              break;
            }
          }
        }
        if (leaves) {
          shared.next_sums[way] = walked;
          shared.next_begin[way] = to;
        } else if (t / static_cast<int>(kWays) == kLanes - 1) {
          shared.next_sums[way] = FromUlps(ends, sum.exponent);
          shared.next_begin[way] = chunk + kChunk;
        }
      });
      block.Threads([&](int t) {
        if (t != 0) return;
        shared.unfinished = 0;
        for (uint32_t way = 0; way < kWays; ++way) {
          shared.sums[way] = shared.next_sums[way];
          shared.begin[way] = shared.next_begin[way];
          if (shared.begin[way] < chunk + kChunk && shared.begin[way] < size_of(way)) {
            shared.unfinished = 1;
          }
        }
        if (shared.found != OrderedSums<kThreads, kWays>::kNowhere) shared.unfinished = 2;
      });
      const uint32_t state = block.Read(shared.unfinished);
      if (state == 2) return;
      unfinished = state == 1;
    }
  }
}

}  // namespace tandem::kernels
