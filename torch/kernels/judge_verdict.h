// The judge's last kernel: the entry of a row (common/acceptance) and its log probabilities
// (common/sampling/logprobs.cc), from p.
#pragma once

#include "torch/kernels/judge_distribution.h"

namespace tandem::kernels {

// What is left of scale * p once q has had its share. While it exists, an entry of the weights that
// q lowers holds what is left there, with its sign bit set.
template <typename Traits>
class LoweredWeights {
 public:
  TANDEM_HOST_DEVICE LoweredWeights(const Block& block, JudgeShared<Traits>& shared,
                                    const JudgeArguments& a, const Row& row, double scale)
      : block_(block), shared_(shared), row_(row), scale_(scale) {
    const Slice& q = row.row->q;
    if (Traits::kFault == JudgeFault::kResidualIgnoresQ) {
      block.Threads([&](int t) {
        for (uint32_t j = t; j < kMaxLowered; j += Traits::kThreads) {
          shared.lowered_places[j] = kNoToken;
        }
      });
      return;
    }
    block.Threads([&](int t) {
      for (uint32_t j = t; j < kMaxLowered; j += Traits::kThreads) {
        shared.lowered_places[j] = kNoToken;
        if (j >= q.count) continue;
        const uint32_t place = row.PlaceOf(a.ids[q.first + j]);
        shared.lowered_places[j] = place;
        if (place == kNoToken) continue;
        const double p = row.weights[place];
        const double left = scale * p - a.numbers[row.row->q_numbers + j];
        shared.lowered[j] = p;
        row.weights[place] = -(left > 0 ? left : 0.0);
      }
    });
  }

  TANDEM_HOST_DEVICE void Restore() {
    block_.Threads([&](int t) {
      for (uint32_t j = t; j < kMaxLowered; j += Traits::kThreads) {
        const uint32_t place = shared_.lowered_places[j];
        if (place != kNoToken) row_.weights[place] = shared_.lowered[j];
      }
    });
  }

  TANDEM_HOST_DEVICE auto values() const {
    return InRow(static_cast<const double*>(row_.weights), [scale = scale_](double p) {
      return base::BitsAs<uint64_t>(p) >> 63 ? -p : scale * p;
    });
  }

 private:
  const Block& block_;
  JudgeShared<Traits>& shared_;
  const Row& row_;
  const double scale_;
};

template <typename Traits, typename Values>
TANDEM_HOST_DEVICE double SumInOrder(const Block& block, JudgeShared<Traits>& shared, uint32_t size,
                                     const Values& values) {
  Clear(block, shared.sums.one);
  AddInOrder<Traits::kRun>(block, shared.sums.one, size, values);
  return block.Read(shared.sums.one.sums[0]);
}

// The first place at which the sum of the values exceeds `target`; if none does, the last value
// above 0 has it.
template <typename Traits, typename Values>
TANDEM_HOST_DEVICE uint32_t FindInOrder(const Block& block, JudgeShared<Traits>& shared,
                                        uint32_t size, const Values& values, double target) {
  Clear(block, shared.sums.one);
  AddInOrder<Traits::kRun>(block, shared.sums.one, size, values, &target);
  const uint32_t found = block.Read(shared.sums.one.found);
  if (found != OrderedSums<Traits::kThreads, 1>::kNowhere) return found;
  block.Threads([&](int t) {
    uint32_t last = 0;
    for (uint32_t i = t; i < size; i += Traits::kThreads) {
      if (values(i) > 0) last = i;
    }
    shared.counts[0][t] = last;
  });
  Reduce<Traits::kThreads>(block, shared.counts[0],
                           [](uint32_t x, uint32_t y) { return x > y ? x : y; });
  return block.Read(shared.counts[0][0]);
}

// What follows if the block ends at a row.
struct Following {
  uint32_t token = kNoToken;
  double sum = 0;  // of what it was drawn from
};

template <typename Traits>
TANDEM_HOST_DEVICE Following DrawResidual(const Block& block, JudgeShared<Traits>& shared,
                                          const JudgeArguments& a, const Row& row, double scale) {
  const uint32_t size = block.Read(row.state->tokens);
  LoweredWeights<Traits> left(block, shared, a, row, scale);
  Following following;
  following.sum = SumInOrder(block, shared, size, left.values());
  if (following.sum > 0) {
    following.token = row.token(
        FindInOrder(block, shared, size, left.values(), row.row->uniform * following.sum));
  }
  left.Restore();
  return following;
}

// r_i of block.h: how much of p the block has left at a row, from the rows before it.
TANDEM_HOST_DEVICE double ShareAt(const JudgeArguments& a, const Row& row) {
  double r = 1;
  TANDEM_NO_UNROLL
  for (uint32_t i = row.sequence->first_row; i < row.number; ++i) {
    const bool must_go_on = r == 1 && a.states[i].left_over == 0;
    const double next = r * (a.states[i].p_candidate / a.rows[i].q_candidate);
    r = must_go_on || !(next < 1) ? 1 : next;
  }
  return r;
}

// The entry of a row: its next token, and an accept probability, by most rules that of the next
// row's.
template <typename Traits>
TANDEM_HOST_DEVICE uint32_t JudgeEntry(const Block& block, JudgeShared<Traits>& shared,
                                       const JudgeArguments& a, const Row& row) {
  const JudgeSequence& s = *row.sequence;
  const bool last = row.row->candidate_is != RowCandidate::kJudged;
  const uint32_t size = block.Read(row.state->tokens);
  const auto accept = [&](uint32_t number, double probability) {
    block.Threads([&](int t) {
      if (t == 0) a.verdicts[number].accept_probability = probability;
    });
  };
  if (row.row->index == 0) accept(row.number, 1);
  // What stands for certain is never the end.
  const auto certain = [&](uint32_t token, bool stands) {
    if (last) return token;
    accept(row.number + 1, stands ? 1 : 0);
    return stands ? kNoToken : token;
  };
  switch (s.rule) {
    case RowRule::kNone:
    case RowRule::kNoneOneHot:
      return kNoToken;
    case RowRule::kOneHot:
      return certain(row.state->argmax, row.row->candidate == row.state->argmax);
    case RowRule::kRace: {
      const uint32_t token = row.token(WinnerOfRace(block, shared, row));
      return certain(token, row.row->candidate == token);
    }
    case RowRule::kLenientGreedy: {
      block.Threads([&](int t) {
        Placed best = {0, kNoToken};
        ForEach<Traits::kThreads>(t, row.weights, size, [&](double weight, uint32_t i) {
          best = LargerFirst()(best, {weight, i});
        });
        shared.best[t] = best;
      });
      Reduce<Traits::kThreads>(block, shared.best, LargerFirst());
      const Placed best = block.Read(shared.best[0]);
      return certain(row.token(best.place), row.state->p_candidate >= s.leniency * best.value);
    }
    case RowRule::kRatio:
    case RowRule::kBlock: {
      const bool of_block = s.rule == RowRule::kBlock;
      const double r = of_block ? ShareAt(a, row) : 1;
      if (last) {
        if (of_block && row.row->index > 0) accept(row.number, r);
        return row.token(FindInOrder(block, shared, size, WeightsOf(row), row.row->uniform));
      }
      const double ratio = row.state->p_candidate / (s.leniency * row.row->q_candidate);
      Following following;
      if (of_block || ratio < 1) following = DrawResidual(block, shared, a, row, r);
      if (!of_block) {
        accept(row.number + 1, ratio < 1 && following.token != kNoToken ? ratio : 1);
      } else if (row.row->index > 0) {
        const bool must_go_on = r == 1 && following.sum <= 0;
        accept(row.number, must_go_on ? 1 : following.sum / (following.sum + (1 - r)));
      }
      return following.token;
    }
  }
  return kNoToken;
}

TANDEM_HOST_DEVICE float LogprobOf(const Row& row, uint32_t token) {
  const float never = base::BitsAs<float>(uint32_t{0xff80'0000});
  if (row.sequence->logprobs == RowLogprobs::kOfModel) {
    if (token >= row.vocabulary) return never;
    return static_cast<float>(double{row.model[token]} - row.state->model_largest -
                              row.state->log_sum);
  }
  const double p = row.Probability(token);
  if (p <= 0) return never;
  constexpr double kLog2 = 0x1.62e42fefa39efp-1;
  return static_cast<float>(p < 0x1p-1022 ? sampling::LogFormula(p * 0x1p64) - 64 * kLog2
                                          : sampling::LogFormula(p));
}

// The most likely tokens, falling; gives how many there are.
template <typename Traits>
TANDEM_HOST_DEVICE uint32_t TopLogprobs(const Block& block, JudgeShared<Traits>& shared,
                                        const JudgeArguments& a, const Row& row) {
  const bool of_model = row.sequence->logprobs == RowLogprobs::kOfModel;
  const double never = of_model ? -base::BitsAs<double>(uint64_t{0x7ff0'0000'0000'0000}) : 0;
  const uint32_t size = of_model ? row.vocabulary : block.Read(row.state->tokens);
  Placed last = {0, kNoToken};
  for (uint32_t count = 0;; ++count) {
    if (count == row.sequence->top_logprobs) return count;
    block.Threads([&](int t) {
      Placed best = {never, kNoToken};
      const auto take = [&](double value, uint32_t i) {
        const bool came =
            count > 0 && (value > last.value || (value == last.value && i <= last.place));
        if (!came && value > never) best = LargerFirst()(best, {value, i});
      };
      if (of_model) {
        ForEach<Traits::kThreads>(t, row.model, size, take);
      } else {
        ForEach<Traits::kThreads>(t, row.weights, size, take);
      }
      shared.best[t] = best;
    });
    Reduce<Traits::kThreads>(block, shared.best, LargerFirst());
    last = block.Read(shared.best[0]);
    if (last.place == kNoToken) return count;
    block.Threads([&](int t) {
      if (t != 0) return;
      const uint32_t token = of_model ? last.place : row.token(last.place);
      a.top[uint64_t{row.number} * a.top_stride + count] = {token, LogprobOf(row, token)};
    });
  }
}

// One block per row. Rows of rule block need the states of the rows before them.
template <typename Traits>
TANDEM_HOST_DEVICE void JudgeVerdict(const Block& block, JudgeShared<Traits>& shared,
                                     const JudgeArguments& a) {
  const Row row = Row::Of(a, block.x());
  const uint32_t broken = block.Read(row.state->broken);
  const uint32_t next = row.has_p() ? JudgeEntry(block, shared, a, row) : kNoToken;
  const RowLogprobs wanted = row.sequence->logprobs;
  const bool logprobs = wanted != RowLogprobs::kNone &&
                        (broken & (wanted == RowLogprobs::kOfModel ? kBrokenModel : kBrokenP)) == 0;
  const uint32_t top = logprobs ? TopLogprobs(block, shared, a, row) : 0;
  block.Threads([&](int t) {
    if (t != 0) return;
    RowVerdict& verdict = a.verdicts[row.number];
    verdict.next_token = next;
    verdict.broken = broken;
    verdict.top = top;
    verdict.candidate_logprob = 0;
    verdict.next_logprob = 0;
    if (!logprobs) return;
    if (row.row->candidate_is != RowCandidate::kNone) {
      verdict.candidate_logprob = LogprobOf(row, row.row->candidate);
    }
    if (next != kNoToken) verdict.next_logprob = LogprobOf(row, next);
  });
}

}  // namespace tandem::kernels
