// The race of a row (sampling::DrawRace): blocks run races of their columns, threads those of
// their tokens, and the best time wins.
//
// The host leaves out what cannot win by a bound that is rounded, so of times that are next to
// equal it may take the later one: then one thread runs the race as the host does.
#pragma once

#include "torch/kernels/judge_row.h"
#include "torch/kernels/philox.h"

namespace tandem::kernels {

inline constexpr uint64_t kInfinity = 0x7ff0'0000'0000'0000;  // bits of a double

// One token's time in the race.
struct Racer {
  uint64_t seed;
  uint32_t sample_index, position;

  TANDEM_HOST_DEVICE static Racer Of(const Row& row) {
    const JudgeSequence& s = *row.sequence;
    return {s.seed, s.sample_index, s.tokens_before + row.row->index};
  }
  TANDEM_HOST_DEVICE double Number(uint32_t token) const {
    const NoisePair pair = TokenNoise(seed, sample_index, position, token / 2);
    return token % 2 == 0 ? pair.even : pair.odd;
  }
  TANDEM_HOST_DEVICE static double Time(double number, double p) {
    return -sampling::LogFormula(1 - number) / p;
  }
};

// Fills in a part of the row. At least one column.
template <typename Traits>
TANDEM_HOST_DEVICE void RunRace(const Block& block, JudgeShared<Traits>& shared, const Row& row,
                                const Columns<Traits>& columns) {
  const Racer racer = Racer::Of(row);
  const double infinity = base::BitsAs<double>(kInfinity);
  const bool listed = row.state->listed != 0;
  const double* weights = row.weights + columns.begin;
  // Calls visit(number, p, place) for the thread's entries; the two tokens of a pair share a block
  // of Philox. `together`: all threads of a warp come by.
  const auto each = [&](int t, bool together, auto visit) {
    if (listed) {
      TANDEM_NO_UNROLL
      for (uint32_t i = t; i < columns.size; i += Traits::kThreads) {
        const uint32_t place = columns.begin + i;
        if (weights[i] > 0) visit(racer.Number(row.ids[place]), weights[i], place);
      }
      return;
    }
    const auto visit_pair = [&](double p0, double p1, uint32_t pair) {
      NoisePair noise =
          TokenNoise(racer.seed, racer.sample_index, racer.position, columns.begin / 2 + pair);
      if (Traits::kFault == JudgeFault::kNoiseOfOtherToken) noise = {noise.odd, noise.even};
      const uint32_t i = 2 * pair;
      if (p0 > 0) visit(noise.even, p0, columns.begin + i);
      if (i + 1 < columns.size && p1 > 0) visit(noise.odd, p1, columns.begin + i + 1);
    };
    // The last pair may have one token; what lies behind it does not count.
    const uint32_t pairs = (columns.size + 1) / 2;
    if (together) {
      ForEachQuad<Traits::kThreads>(t, weights, pairs, [&](const Quad& two, uint32_t pair) {
        visit_pair(NumberOf<double>(two, 0), NumberOf<double>(two, 1), pair);
      });
      return;
    }
    TANDEM_NO_UNROLL
    for (uint32_t pair = t; pair < pairs; pair += Traits::kThreads) {
      visit_pair(weights[2 * pair], weights[2 * pair + 1], pair);
    }
  };
  const double behind = 1 + 2 * Traits::kNearTie;
  block.Threads([&](int t) {
    Placed best = {infinity, kNoToken};
    each(t, /*together=*/true, [&](double number, double p, uint32_t i) {
      if (number >= best.value * p * behind) return;  // -log(1 - u) >= u
      best = SmallerFirst()(best, {Racer::Time(number, p), i});
    });
    shared.best[t] = best;
    shared.words[t] = base::BitsAs<uint64_t>(best.value);
    if (t == 0) shared.counter = 0;
  });
  Reduce<Traits::kThreads>(block, shared.best, SmallerFirst());
  const Placed best = block.Read(shared.best[0]);
  const double near = best.value * (1 + Traits::kNearTie);
  block.Threads([&](int t) {
    // Hardly a thread goes on from here.
    if (base::BitsAs<double>(shared.words[t]) > near) return;
    each(t, /*together=*/false, [&](double number, double p, uint32_t) {
      if (number < near * p * behind && Racer::Time(number, p) <= near) {
        block.Add(shared.counter, 1);
      }
    });
  });
  block.Threads([&](int t) {
    if (t != 0) return;
    RowPart& part = row.parts[block.y()];
    part.time = best.value;
    part.place = best.place;
    part.near = shared.counter;
  });
}

// The place that wins, from the parts.
template <typename Traits>
TANDEM_HOST_DEVICE uint32_t WinnerOfRace(const Block& block, JudgeShared<Traits>& shared,
                                         const Row& row) {
  const double infinity = base::BitsAs<double>(kInfinity);
  const uint32_t size = row.state->tokens;
  const uint32_t parts = Columns<Traits>::Count(size);
  Placed best = {infinity, kNoToken};
  uint32_t near_best = 0;
  TANDEM_NO_UNROLL
  for (uint32_t i = 0; i < parts; ++i) {
    if (row.parts[i].time < best.value) near_best = row.parts[i].near;
    best = SmallerFirst()(best, {row.parts[i].time, row.parts[i].place});
  }
  const double near = best.value * (1 + Traits::kNearTie);
  uint32_t in_time = 0;
  TANDEM_NO_UNROLL
  for (uint32_t i = 0; i < parts; ++i) {
    if (row.parts[i].time <= near) in_time += row.parts[i].near;
  }
  if (Traits::kFault == JudgeFault::kPartsNearUnseen) in_time = near_best;
  if (in_time <= 1) return best.place;
  const Racer racer = Racer::Of(row);
  block.Threads([&](int t) {
    if (t != 0) return;
    double time = infinity;
    TANDEM_NO_UNROLL
    for (uint32_t i = 0; i < size; ++i) {
      const double p = row.weights[i];
      if (!(p > 0)) continue;
      const double number = racer.Number(row.token(i));
      if (number >= time * p) continue;
      const double own = Racer::Time(number, p);
      if (own < time) {
        time = own;
        shared.needed = i;
      }
    }
  });
  return block.Read(shared.needed);
}

}  // namespace tandem::kernels
