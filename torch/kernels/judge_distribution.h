// p of a row, from its weights (common/sampling/distribution.cc): what is left out by one block,
// the probabilities by several, which also run the race of their columns.
#pragma once

#include "torch/kernels/judge_prepare.h"
#include "torch/kernels/judge_race.h"

namespace tandem::kernels {

TANDEM_HOST_DEVICE uint64_t KeyOfPlace(const Row& row, const float* logits, uint32_t place) {
  return RankKey(logits[row.token(place)], place);
}

TANDEM_HOST_DEVICE_INLINE auto WeightsOf(const Row& row) {
  return InRow(static_cast<const double*>(row.weights), [](double weight) { return weight; });
}

// The weights at the places that keys end with.
struct WeightsOfKeys {
  using Raw = double;
  const double* weights;
  const uint64_t* keys;

  TANDEM_HOST_DEVICE double Load(uint32_t i) const {
    return weights[static_cast<uint32_t>(keys[i])];
  }
  TANDEM_HOST_DEVICE double of(double weight) const { return weight; }
  TANDEM_HOST_DEVICE double operator()(uint32_t i) const { return Load(i); }
};

// The weights, as ExpAll adds them up: eight sums.
template <typename Traits>
TANDEM_HOST_DEVICE double SumOfExponentials(const Block& block, JudgeShared<Traits>& shared,
                                            const Row& row) {
  const uint32_t size = block.Read(row.state->tokens);
  if (Traits::kFault == JudgeFault::kSumsByThread) {
    Clear(block, shared.sums.one);
    AddInOrder<Traits::kRun>(block, shared.sums.one, size, WeightsOf(row));
    return block.Read(shared.sums.one.sums[0]);
  }
  if (!row.has_top_k()) return SumOfWays<Traits>(row.state->sums);
  Clear(block, shared.sums.eight);
  AddInOrder<Traits::kRun>(block, shared.sums.eight, size, WeightsOf(row), nullptr,
                           Traits::kFault == JudgeFault::kScanInPlace);
  const double sum = SumOfWays<Traits>(shared.sums.eight.sums);
  return block.Read(sum);
}

// The weights that are left, as Sum adds them up.
template <typename Traits>
TANDEM_HOST_DEVICE double SumOfLeft(const Block& block, JudgeShared<Traits>& shared,
                                    const Row& row) {
  Clear(block, shared.sums.four);
  AddInOrder<Traits::kRun>(block, shared.sums.four, block.Read(row.state->tokens), WeightsOf(row));
  const double* s = shared.sums.four.sums;
  const double sum = (s[0] + s[1]) + (s[2] + s[3]);
  return block.Read(sum);
}

// Sorts the keys, ascending.
template <typename Traits>
TANDEM_HOST_DEVICE void SortKeys(const Block& block, JudgeShared<Traits>& shared) {
  constexpr uint32_t kSorted = Traits::kSorted;
  TANDEM_NO_UNROLL
  for (uint32_t length = 2; length <= kSorted; length *= 2) {
    TANDEM_NO_UNROLL
    for (uint32_t distance = length / 2; distance > 0; distance /= 2) {
      block.Threads([&](int t) {
        for (uint32_t pair = t; pair < kSorted / 2; pair += Traits::kThreads) {
          const uint32_t i = pair / distance * 2 * distance + pair % distance;
          const uint32_t j = i + distance;
          const bool ascending = (i & length) == 0;
          if ((shared.keys[i] > shared.keys[j]) == ascending) {
            const uint64_t key = shared.keys[i];
            shared.keys[i] = shared.keys[j];
            shared.keys[j] = key;
          }
        }
      });
    }
  }
}

// Keeps the fewest best entries whose weights reach top_p of `sum`. They are added up from the best
// on, kSorted at a time.
template <typename Traits>
TANDEM_HOST_DEVICE void TopP(const Block& block, JudgeShared<Traits>& shared, const Row& row,
                             double sum) {
  constexpr uint32_t kSorted = Traits::kSorted;
  const float* logits = row.logits();
  const double top_p = row.sequence->top_p;
  const uint32_t size = block.Read(row.state->tokens);
  // Weights below this one are not looked at (distribution.cc).
  double min = (1 - top_p) / 2 * sum / static_cast<double>(size);
  if (1 - top_p < 1e-6) min = 0;
  const auto key = [&](uint32_t i) { return KeyOfPlace(row, logits, i); };
  block.Threads([&](int t) {
    if (t == 0) shared.counter = 0;
  });
  block.Threads([&](int t) {
    uint32_t count = 0;
    ForEach<Traits::kThreads>(t, row.weights, size,
                              [&](double weight, uint32_t) { count += weight >= min ? 1 : 0; });
    block.Add(shared.counter, count);
  });
  uint32_t left = block.Read(shared.counter);
  // The sum is reached at the first place where it exceeds the number below min_sum.
  const double min_sum = top_p * sum;
  const double target = base::BitsAs<double>(base::BitsAs<uint64_t>(min_sum) - 1);
  bool any = false;
  uint64_t last = 0;  // the best entries up to this key are kept, if any
  Clear(block, shared.sums.one);
  while (left > 0) {
    const uint32_t taken = left < kSorted ? left : kSorted;
    const auto each = [&](int t, auto visit) {
      ForEach<Traits::kThreads>(t, row.weights, size, [&](double weight, uint32_t i) {
        if (!(weight >= min)) return;
        const uint64_t k = key(i);
        if (!any || k > last) visit(k);
      });
    };
    const uint64_t end =
        taken == left ? ~uint64_t{0} : SelectKey<Traits>(block, shared, taken, each);
    block.Threads([&](int t) {
      if (t == 0) shared.counter = 0;
      for (uint32_t i = t; i < kSorted; i += Traits::kThreads) shared.keys[i] = ~uint64_t{0};
    });
    block.Threads([&](int t) {
      each(t, [&](uint64_t k) {
        if (k <= end) shared.keys[block.Add(shared.counter, 1)] = k;
      });
    });
    SortKeys(block, shared);
    AddInOrder<Traits::kRun>(block, shared.sums.one, taken, WeightsOfKeys{row.weights, shared.keys},
                             &target);
    const uint32_t found = block.Read(shared.sums.one.found);
    const bool reached = found != OrderedSums<Traits::kThreads, 1>::kNowhere;
    last = block.Read(shared.keys[reached ? found : taken - 1]);
    any = true;
    if (reached) break;
    left -= taken;
  }
  if (Traits::kFault == JudgeFault::kTopPIgnoresTies) last |= 0xffff'ffff;
  Compact(block, shared, row, [&](uint32_t i) { return key(i) <= last && row.weights[i] >= min; });
}

// Keeps what has at least this share of the largest weight. False: that is all.
template <typename Traits>
TANDEM_HOST_DEVICE bool MinP(const Block& block, JudgeShared<Traits>& shared, const Row& row) {
  const uint32_t size = block.Read(row.state->tokens);
  block.Threads([&](int t) {
    Placed best = {0, kNoToken};
    ForEach<Traits::kThreads>(t, row.weights, size, [&](double weight, uint32_t i) {
      best = LargerFirst()(best, {weight, i});
    });
    shared.best[t] = best;
  });
  Reduce<Traits::kThreads>(block, shared.best, LargerFirst());
  const double min = row.sequence->min_p * block.Read(shared.best[0].value);
  Compact(block, shared, row, [&](uint32_t i) { return !(row.weights[i] < min); });
  return block.Read(row.state->tokens) < size;
}

// One block per row.
template <typename Traits>
TANDEM_HOST_DEVICE void JudgeDistribution(const Block& block, JudgeShared<Traits>& shared,
                                          const JudgeArguments& a) {
  const Row row = Row::Of(a, block.x());
  const JudgeSequence& s = *row.sequence;
  const float* logits = row.logits();
  if (row.has_model_logprobs()) {
    block.Threads([&](int t) {
      if (t != 0) return;
      row.state->log_sum = sampling::LogFormula(SumOfWays<Traits>(row.state->model_sums));
    });
  }
  if (!row.has_p()) return;
  double factor = 1;
  if (row.one_hot()) {
    block.Threads([&](int t) {
      if (t != 0) return;
      row.state->tokens = 1;
      row.state->listed = 1;
      row.ids[0] = row.state->argmax;
      row.weights[0] = 1;
    });
  } else {
    block.Threads([&](int t) {
      if (t == 0) row.state->tokens = row.vocabulary;
    });
    if (row.has_top_k()) {
      const uint64_t last = SelectKey<Traits>(block, shared, s.top_k, [&](int t, auto visit) {
        ForEach<Traits::kThreads>(t, logits, row.vocabulary,
                                  [&](float logit, uint32_t i) { visit(RankKey(logit, i)); });
      });
      Compact(block, shared, row, [&](uint32_t i) { return RankKey(logits[i], i) <= last; });
    }
    double sum = SumOfExponentials(block, shared, row);
    if (s.top_p < 1) {
      TopP(block, shared, row, sum);
      sum = SumOfLeft(block, shared, row);
    }
    if (s.min_p > 0 && MinP(block, shared, row)) sum = SumOfLeft(block, shared, row);
    factor = 1 / sum;
  }
  // Rule block asks of each row whether its block can only go on there.
  const uint32_t size = block.Read(row.state->tokens);
  block.Threads([&](int t) {
    if (t == 0) shared.flag = 0;
  });
  if (s.rule == RowRule::kBlock && row.row->candidate_is != RowCandidate::kNone) {
    block.Threads([&](int t) {
      for (uint32_t i = t; i < size; i += Traits::kThreads) {
        const double p = row.weights[i] * factor;
        if (!(p > 0)) continue;
        double q = 0;
        TANDEM_NO_UNROLL
        for (uint32_t j = 0; j < row.row->q.count; ++j) {
          if (a.ids[row.row->q.first + j] == row.token(i)) q = a.numbers[row.row->q_numbers + j];
        }
        if (p - q > 0) {
          block.Add(shared.flag, 1);
          return;
        }
      }
    });
  }
  block.Threads([&](int t) {
    if (t != 0) return;
    row.state->left_over = shared.flag;
    row.state->factor = factor;
    if (row.row->candidate_is != RowCandidate::kNone) {
      row.state->p_candidate = row.Probability(row.row->candidate) * factor;
    }
  });
}

// Blocks of (rows, columns).
template <typename Traits>
TANDEM_HOST_DEVICE void JudgeProbabilities(const Block& block, JudgeShared<Traits>& shared,
                                           const JudgeArguments& a) {
  const Row row = Row::Of(a, block.x());
  if (!row.has_p() || row.one_hot()) return;
  const Columns<Traits> columns(block.y(), row.state->tokens);
  const double factor = row.state->factor;
  double* weights = row.weights + columns.begin;
  block.Threads([&](int t) {
    Transform<Traits::kThreads>(t, weights, columns.size, weights,
                                [&](double weight) { return weight * factor; });
  });
  if (row.sequence->rule == RowRule::kRace && columns.size > 0) {
    RunRace(block, shared, row, columns);
  }
}

}  // namespace tandem::kernels
