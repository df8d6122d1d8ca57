// The judge's first kernels: logits are processed (common/sampling/logits.h), the largest is found,
// weights are made of them and added up. All but the first have several blocks per row, so that a
// single row of a large vocabulary takes more of a card than one multiprocessor.
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

// One block per row.
template <typename Traits>
TANDEM_HOST_DEVICE void JudgePrepare(const Block& block, const JudgeArguments& a) {
  const Row row = Row::Of(a, block.x());
  if (row.changed()) ProcessLogits<Traits>(block, a, row);
}

// RankKey of the largest of some columns; `nan`: whether there is one.
template <typename Traits>
TANDEM_HOST_DEVICE uint64_t FindLargest(const Block& block, JudgeShared<Traits>& shared,
                                        const Row& row, const float* logits, bool& nan) {
  const Columns<Traits> columns(block.y(), row.vocabulary);
  block.Threads([&](int t) {
    uint64_t best = ~uint64_t{0};
    uint32_t seen = 0;
    ForEach<Traits::kThreads>(t, logits + columns.begin, columns.size,
                              [&](float logit, uint32_t i) {
                                if (IsNan(logit)) {
                                  seen = 1;
                                  return;
                                }
                                uint32_t place = columns.begin + i;
                                if (Traits::kFault == JudgeFault::kTiesToHigherId) {
                                  place = row.vocabulary - 1 - place;
                                }
                                const uint64_t key = RankKey(logit, place);
                                if (key < best) best = key;
                              });
    shared.words[t] = best;
    shared.counts[0][t] = seen;
  });
  Reduce<Traits::kThreads>(block, shared.words,
                           [](uint64_t x, uint64_t y) { return x < y ? x : y; });
  Reduce<Traits::kThreads>(block, shared.counts[0], [](uint32_t x, uint32_t y) { return x | y; });
  nan = block.Read(shared.counts[0][0]) != 0;
  return block.Read(shared.words[0]);
}

// Blocks of (rows, columns).
template <typename Traits>
TANDEM_HOST_DEVICE void JudgeLargest(const Block& block, JudgeShared<Traits>& shared,
                                     const JudgeArguments& a) {
  const Row row = Row::Of(a, block.x());
  bool nan = false;
  const uint64_t largest = FindLargest(block, shared, row, row.logits(), nan);
  bool model_nan = nan;
  uint64_t model = largest;
  if (row.sequence->logprobs == RowLogprobs::kOfModel && row.changed()) {
    model = FindLargest(block, shared, row, row.model, model_nan);
  }
  block.Threads([&](int t) {
    if (t != 0) return;
    RowPart& part = row.parts[block.y()];
    part.largest = largest;
    part.model_largest = model;
    part.broken = (nan ? kBrokenP : 0) | (model_nan ? kBrokenModel : 0);
  });
}

struct Largest {
  float value;
  uint32_t place;
  bool broken;  // a NaN, +infinity, or nothing finite
};

// Of a whole row, from its parts.
template <typename Traits>
TANDEM_HOST_DEVICE Largest LargestOf(const Row& row, const float* logits, bool of_model) {
  uint64_t best = ~uint64_t{0};
  bool broken = false;
  TANDEM_NO_UNROLL
  for (uint32_t i = 0; i < Columns<Traits>::Count(row.vocabulary); ++i) {
    const RowPart& part = row.parts[i];
    const uint64_t largest = of_model ? part.model_largest : part.largest;
    if (largest < best) best = largest;
    broken = broken || (part.broken & (of_model ? kBrokenModel : kBrokenP)) != 0;
  }
  if (best == ~uint64_t{0}) return {0, 0, true};
  uint32_t place = static_cast<uint32_t>(best);
  if (Traits::kFault == JudgeFault::kTiesToHigherId) place = row.vocabulary - 1 - place;
  return {logits[place], place, broken || IsInfinite(logits[place])};
}

// Blocks of (rows, columns). What needs no weights is left out. The first block of a row writes its
// state, which the others do not read.
template <typename Traits>
TANDEM_HOST_DEVICE void JudgeWeights(const Block& block, const JudgeArguments& a) {
  const Row row = Row::Of(a, block.x());
  const float* logits = row.logits();
  const Largest largest = LargestOf<Traits>(row, logits, /*of_model=*/false);
  if (block.y() == 0) {
    Largest model = {0, 0, false};
    if (row.sequence->logprobs == RowLogprobs::kOfModel) {
      model = LargestOf<Traits>(row, row.model, /*of_model=*/true);
    }
    block.Threads([&](int t) {
      if (t != 0) return;
      RowState& state = *row.state;
      state = RowState{};
      state.largest = largest.value;
      state.argmax = largest.place;
      state.model_largest = model.value;
      state.broken = (largest.broken ? kBrokenP : 0) | (model.broken ? kBrokenModel : 0);
    });
  }
  if (!row.wants_p() || largest.broken || row.one_hot()) return;
  const double top = largest.value, scale = row.sequence->scale;
  const Columns<Traits> columns(block.y(), row.vocabulary);
  block.Threads([&](int t) {
    Transform<Traits::kThreads>(
        t, logits + columns.begin, columns.size, row.weights + columns.begin,
        [&](float logit) { return sampling::ExpFormula<double, int64_t>((logit - top) * scale); });
  });
}

// Every kSumWays-th of numbers that lie one behind the other.
template <typename Number, typename Function>
struct OfWay {
  using Raw = Number;
  const Number* numbers;
  uint32_t way;
  Function of;

  TANDEM_HOST_DEVICE_INLINE Number Load(uint32_t i) const { return numbers[i * kSumWays + way]; }
  TANDEM_HOST_DEVICE_INLINE double operator()(uint32_t i) const { return of(Load(i)); }
};
template <typename Number, typename Function>
OfWay(const Number*, uint32_t, Function) -> OfWay<Number, Function>;

// Blocks of (rows, kSumWays): each adds up one of the sums that ExpAll has, in its order.
template <typename Traits>
TANDEM_HOST_DEVICE void JudgeSums(const Block& block, JudgeShared<Traits>& shared,
                                  const JudgeArguments& a) {
  const Row row = Row::Of(a, block.x());
  const uint32_t way = block.y();
  const uint32_t count = (row.vocabulary + kSumWays - 1 - way) / kSumWays;
  const auto sum = [&](const auto& values, double* sums) {
    Clear(block, shared.sums.one);
    AddInOrder<Traits::kRun>(block, shared.sums.one, count, values, nullptr,
                             Traits::kFault == JudgeFault::kScanInPlace);
    block.Threads([&](int t) {
      if (t == 0) sums[way] = shared.sums.one.sums[0];
    });
  };
  if (row.has_model_logprobs()) {
    const double largest = row.state->model_largest;
    sum(OfWay{row.model, way,
              [largest](float logit) {
                return sampling::ExpFormula<double, int64_t>(double{logit} - largest);
              }},
        row.state->model_sums);
  }
  if (row.has_p() && !row.one_hot() && !row.has_top_k()) {
    sum(OfWay{static_cast<const double*>(row.weights), way, [](double weight) { return weight; }},
        row.state->sums);
  }
}

// The sums of all ways, as ExpAll adds them up.
template <typename Traits>
TANDEM_HOST_DEVICE double SumOfWays(const double* s) {
  if (Traits::kFault == JudgeFault::kWaysInTurn) {
    return ((((((s[0] + s[1]) + s[2]) + s[3]) + s[4]) + s[5]) + s[6]) + s[7];
  }
  return ((s[0] + s[2]) + (s[4] + s[6])) + ((s[1] + s[3]) + (s[5] + s[7]));
}

}  // namespace tandem::kernels
