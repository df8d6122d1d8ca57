// The judge's first two kernels: logits are processed (common/sampling/logits.h) and the largest
// is found; then weights are made of them.
#pragma once

#include "torch/kernels/judge_row.h"

namespace tandem::kernels {

struct TokenCounts {
  uint32_t all, output;
};

// How often a token came before a row.
template <typename Traits>
TANDEM_HOST_DEVICE TokenCounts CountsOf(const JudgeArguments& a, const Row& row, uint32_t token) {
  const JudgeSequence& s = *row.sequence;
  TokenCounts counts = {0, 0};
  const uint32_t* seen = a.ids + s.seen.first;
  uint32_t low = 0, high = s.seen.count;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (seen[middle] < token) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low < s.seen.count && seen[low] == token) {
    counts = {1, a.ids[s.seen_counts + low]};
  }
  if (Traits::kFault == JudgeFault::kCandidatesUnseen) return counts;
  TANDEM_NO_UNROLL
  for (uint32_t i = 0; i < row.row->index; ++i) {
    if (a.ids[s.following.first + i] != token) continue;
    ++counts.all;
    if (s.tokens_before + i >= s.prompt_tokens) ++counts.output;
  }
  return counts;
}

TANDEM_HOST_DEVICE double Penalised(double logit, const JudgeSequence& s,
                                    const TokenCounts& counts) {
  logit = logit > 0 ? logit / s.repetition_penalty : logit * s.repetition_penalty;
  if (counts.output == 0) return logit;
  return logit - (s.presence_penalty + s.frequency_penalty * counts.output);
}

// What a float makes of `changed`, which `logit` became.
TANDEM_HOST_DEVICE float Rounded(double changed, float logit) {
  if (IsNan(logit) || IsInfinite(logit)) return logit;
  constexpr double kMax = 0x1.fffffep127;  // of a float
  if (changed < -kMax) changed = -kMax;
  if (changed > kMax) changed = kMax;
  return static_cast<float>(changed);
}

inline constexpr uint32_t kNegativeInfinity = 0xff80'0000;  // bits of a float

template <typename Traits>
TANDEM_HOST_DEVICE void ProcessLogits(const Block& block, const JudgeArguments& a, const Row& row) {
  constexpr uint32_t kThreads = Traits::kThreads;
  const JudgeSequence& s = *row.sequence;
  const float never = base::BitsAs<float>(kNegativeInfinity);
  const auto penalise = [&](uint32_t token) {
    const float logit = row.model[token];
    row.processed[token] = Rounded(Penalised(logit, s, CountsOf<Traits>(a, row, token)), logit);
  };
  const auto ban = [&](const Slice& slice) {
    block.Threads([&](int t) {
      for (uint32_t i = t; i < slice.count; i += kThreads) {
        const uint32_t token = a.ids[slice.first + i];
        if (token < row.vocabulary) row.processed[token] = never;
      }
    });
  };
  block.Threads([&](int t) {
    Transform<Traits::kThreads>(t, row.model, row.vocabulary, row.processed,
                                [](float logit) { return logit; });
  });
  if (s.penalises != 0) {
    block.Threads([&](int t) {
      for (uint32_t i = t; i < s.seen.count; i += kThreads) {
        const uint32_t token = a.ids[s.seen.first + i];
        if (token < row.vocabulary) penalise(token);
      }
    });
    if (Traits::kFault != JudgeFault::kCandidatesUnseen) {
      // A token that came before as well gets the same value once more.
      block.Threads([&](int t) {
        for (uint32_t i = t; i < row.row->index; i += kThreads) {
          const uint32_t token = a.ids[s.following.first + i];
          if (token < row.vocabulary) penalise(token);
        }
      });
    }
  }
  block.Threads([&](int t) {
    for (uint32_t i = t; i < s.bias.count; i += kThreads) {
      const uint32_t token = a.ids[s.bias.first + i];
      if (token >= row.vocabulary) continue;
      const float logit = row.model[token];
      double changed = logit + a.numbers[s.bias_numbers + i];
      if (s.penalises != 0) {
        const TokenCounts counts = CountsOf<Traits>(a, row, token);
        if (counts.all > 0) changed = Penalised(changed, s, counts);
      }
      row.processed[token] = Rounded(changed, logit);
    }
  });
  if (s.allowed.count > 0) {
    // What is kept lies among the weights while all else is wiped out.
    block.Threads([&](int t) {
      for (uint32_t i = t; i < s.allowed.count; i += kThreads) {
        const uint32_t token = a.ids[s.allowed.first + i];
        if (token < row.vocabulary) row.weights[token] = row.processed[token];
      }
    });
    block.Threads([&](int t) {
      for (uint32_t i = t; i < row.vocabulary; i += kThreads) row.processed[i] = never;
    });
    block.Threads([&](int t) {
      for (uint32_t i = t; i < s.allowed.count; i += kThreads) {
        const uint32_t token = a.ids[s.allowed.first + i];
        if (token < row.vocabulary) row.processed[token] = static_cast<float>(row.weights[token]);
      }
    });
  }
  ban(s.banned);
  if (row.too_early_to_end()) ban(s.stop);
}

struct Largest {
  float value;
  uint32_t place;
  bool broken;  // a NaN, +infinity, or nothing finite
};

template <typename Traits>
TANDEM_HOST_DEVICE Largest FindLargest(const Block& block, JudgeShared<Traits>& shared,
                                       const float* logits, uint32_t size) {
  block.Threads([&](int t) {
    uint64_t best = ~uint64_t{0};
    uint32_t nan = 0;
    ForEach<Traits::kThreads>(t, logits, size, [&](float logit, uint32_t i) {
      if (IsNan(logit)) {
        nan = 1;
        return;
      }
      const bool higher = Traits::kFault == JudgeFault::kTiesToHigherId;
      const uint64_t key = RankKey(logit, higher ? size - 1 - i : i);
      if (key < best) best = key;
    });
    shared.words[t] = best;
    shared.counts[0][t] = nan;
  });
  Reduce<Traits::kThreads>(block, shared.words,
                           [](uint64_t x, uint64_t y) { return x < y ? x : y; });
  Reduce<Traits::kThreads>(block, shared.counts[0], [](uint32_t x, uint32_t y) { return x | y; });
  const uint64_t best = block.Read(shared.words[0]);
  const bool nan = block.Read(shared.counts[0][0]) != 0;
  if (best == ~uint64_t{0}) return {0, 0, true};
  uint32_t place = static_cast<uint32_t>(best);
  if (Traits::kFault == JudgeFault::kTiesToHigherId) place = size - 1 - place;
  return {logits[place], place, nan || IsInfinite(logits[place])};
}

// One block per row.
template <typename Traits>
TANDEM_HOST_DEVICE void JudgePrepare(const Block& block, JudgeShared<Traits>& shared,
                                     const JudgeArguments& a) {
  const Row row = Row::Of(a, block.x());
  if (row.changed()) ProcessLogits<Traits>(block, a, row);
  const Largest largest = FindLargest(block, shared, row.logits(), row.vocabulary);
  Largest model = {0, 0, false};
  if (row.sequence->logprobs == RowLogprobs::kOfModel) {
    model = FindLargest(block, shared, row.model, row.vocabulary);
    Clear(block, shared.sums.eight);
    if (!model.broken) {
      AddInOrder<Traits::kRun>(block, shared.sums.eight, row.vocabulary,
                               InRow(row.model, [&](float logit) {
                                 const double x = double{logit} - double{model.value};
                                 return sampling::ExpFormula<double, int64_t>(x);
                               }));
    }
  }
  block.Threads([&](int t) {
    if (t != 0) return;
    RowState& state = *row.state;
    state = RowState{};
    state.largest = largest.value;
    state.argmax = largest.place;
    state.model_largest = model.value;
    state.broken = (largest.broken ? kBrokenP : 0) | (model.broken ? kBrokenModel : 0);
    if (row.sequence->logprobs == RowLogprobs::kOfModel && !model.broken) {
      const double* sums = shared.sums.eight.sums;
      state.log_sum = sampling::LogFormula(((sums[0] + sums[2]) + (sums[4] + sums[6])) +
                                           ((sums[1] + sums[3]) + (sums[5] + sums[7])));
    }
  });
}

// One block for kColumn weights (y) of a row (x). What needs none is left out.
template <typename Traits>
inline constexpr uint32_t kColumn = Traits::kThreads* kInFlight* kNumbersPerQuad<float>;

template <typename Traits>
TANDEM_HOST_DEVICE void JudgeWeights(const Block& block, const JudgeArguments& a) {
  const Row row = Row::Of(a, block.x());
  if (!row.has_p() || row.one_hot()) return;
  const float* logits = row.logits();
  const double largest = row.state->largest, scale = row.sequence->scale;
  block.Threads([&](int t) {
    const uint32_t begin = block.y() * kColumn<Traits>, left = row.vocabulary - begin;
    Transform<Traits::kThreads>(
        t, logits + begin, left < kColumn<Traits> ? left : kColumn<Traits>, row.weights + begin,
        [&](float logit) {
          return sampling::ExpFormula<double, int64_t>((logit - largest) * scale);
        });
  });
}

}  // namespace tandem::kernels
