// What the judge's kernels do alike with one row: its memory, ranks, and choosing the best of it.
#pragma once

#include "common/sampling/elementary_formulas.h"
#include "torch/kernels/block.h"
#include "torch/kernels/judge_types.h"
#include "torch/kernels/ordered_sum.h"
#include "torch/kernels/wide_loads.h"

namespace tandem::kernels {

// Mistakes that tests make on purpose, to show that they would be found.
enum class JudgeFault {
  kNone,
  kTiesToHigherId,
  kScanInPlace,        // a barrier is missing in the ordered sums
  kCandidatesUnseen,   // penalties look at committed tokens only
  kSumsByThread,       // weights are added up in another order
  kNoiseOfOtherToken,  // the two tokens of a pair exchange their numbers
  kResidualIgnoresQ,
  kTopPIgnoresTies,  // of tokens with one weight all or none are kept
  kLastPartUnseen,   // of a row
  kWaysInTurn,       // sums of a row's blocks are added up in another order
  kPartsNearUnseen,  // times that are next to equal count in one part of a row alone
};

// How the kernels are compiled. kThreads: of a block, a power of two, at least 8; kRun: values that
// a thread adds at a time; kSorted: tokens that are sorted at a time, a power of two; kColumn:
// those of a row that one of its blocks has, a multiple of kMinColumn.
struct JudgeTraits {
  static constexpr int kThreads = 512;
  static constexpr int kRun = 8;
  static constexpr int kSorted = 1024;
  static constexpr uint32_t kColumn = kThreads * kInFlight * kNumbersPerQuad<float>;
  // Times of the race that differ by less are compared in the order of the host.
  static constexpr double kNearTie = 1e-12;
  static constexpr JudgeFault kFault = JudgeFault::kNone;
};

// A value at a place; what Reduce puts together.
struct Placed {
  double value;
  uint32_t place;
};

struct SmallerFirst {
  TANDEM_HOST_DEVICE Placed operator()(const Placed& a, const Placed& b) const {
    if (a.value != b.value) return a.value < b.value ? a : b;
    return a.place < b.place ? a : b;
  }
};
struct LargerFirst {
  TANDEM_HOST_DEVICE Placed operator()(const Placed& a, const Placed& b) const {
    if (a.value != b.value) return a.value > b.value ? a : b;
    return a.place < b.place ? a : b;
  }
};

// Shared memory of every kernel of the judge.
template <typename Traits>
struct JudgeShared {
  union Sums {
    OrderedSums<Traits::kThreads, 1> one;
    OrderedSums<Traits::kThreads, 4> four;
    OrderedSums<Traits::kThreads, 8> eight;
  } sums;
  uint64_t keys[Traits::kSorted];
  Placed best[Traits::kThreads];
  uint64_t words[Traits::kThreads];
  uint32_t counts[2][Traits::kThreads];
  uint32_t histogram[256];
  double lowered[kMaxLowered];
  uint32_t lowered_places[kMaxLowered];
  uint64_t key;
  uint32_t counter;
  uint32_t needed;
  uint32_t flag;
  double number;
};

// The columns of a row that one block has, where a row has several: those from y * kColumn on.
template <typename Traits>
struct Columns {
  uint32_t begin, size;

  // Of `all` entries.
  TANDEM_HOST_DEVICE Columns(uint32_t y, uint32_t all) : begin(y * Traits::kColumn), size(0) {
    static_assert(Traits::kColumn % kMinColumn == 0);
    if (begin < all) size = all - begin < Traits::kColumn ? all - begin : Traits::kColumn;
  }
  TANDEM_HOST_DEVICE static uint32_t Count(uint32_t all) {
    const uint32_t count = (all + Traits::kColumn - 1) / Traits::kColumn;
    return Traits::kFault == JudgeFault::kLastPartUnseen && count > 1 ? count - 1 : count;
  }
};

// A row of a launch.
struct Row {
  const JudgeSequence* sequence;
  const JudgeRow* row;
  const float* model;  // logits as the model gave them
  float* processed;
  double* weights;
  uint32_t* ids;
  RowState* state;
  RowPart* parts;
  uint32_t vocabulary;
  uint32_t number;  // among all rows

  TANDEM_HOST_DEVICE static Row Of(const JudgeArguments& a, uint32_t in_launch) {
    const uint32_t number = a.first_row + in_launch;
    const JudgeRow* row = a.rows + number;
    const uint64_t room = uint64_t{in_launch} * a.workspace_stride;
    return {a.sequences + row->sequence,
            row,
            a.logits + row->logits_row * a.logits_stride,
            a.processed + room,
            a.weights + room,
            a.workspace_ids + room,
            a.states + number,
            a.parts + uint64_t{in_launch} * (a.workspace_stride / kMinColumn),
            a.vocabulary_size,
            number};
  }

  // Whether logits are processed at all; if not, nobody copies them.
  TANDEM_HOST_DEVICE bool changed() const {
    const JudgeSequence& s = *sequence;
    return s.bias.count > 0 || s.banned.count > 0 || s.allowed.count > 0 || too_early_to_end() ||
           (s.penalises != 0 && s.tokens_before + row->index > 0);
  }
  TANDEM_HOST_DEVICE bool too_early_to_end() const {
    const JudgeSequence& s = *sequence;
    const uint32_t before = s.tokens_before + row->index;
    const uint32_t output = before > s.prompt_tokens ? before - s.prompt_tokens : 0;
    return output < s.min_tokens && s.stop.count > 0;
  }
  TANDEM_HOST_DEVICE bool one_hot() const {
    return sequence->rule == RowRule::kOneHot || sequence->rule == RowRule::kNoneOneHot;
  }
  TANDEM_HOST_DEVICE bool wants_p() const {
    return (sequence->rule != RowRule::kNone && sequence->rule != RowRule::kNoneOneHot) ||
           sequence->logprobs == RowLogprobs::kOfP;
  }
  // Whether p can be made and is asked for.
  TANDEM_HOST_DEVICE bool has_p() const { return wants_p() && (state->broken & kBrokenP) == 0; }
  TANDEM_HOST_DEVICE bool has_model_logprobs() const {
    return sequence->logprobs == RowLogprobs::kOfModel && (state->broken & kBrokenModel) == 0;
  }
  TANDEM_HOST_DEVICE bool has_top_k() const {
    return sequence->top_k > 0 && sequence->top_k < vocabulary;
  }
  TANDEM_HOST_DEVICE const float* logits() const { return changed() ? processed : model; }
  TANDEM_HOST_DEVICE uint32_t token(uint32_t place) const {
    return state->listed != 0 ? ids[place] : place;
  }

  // The place of a token among the entries of p; kNoToken: it has none.
  TANDEM_HOST_DEVICE uint32_t PlaceOf(uint32_t token) const {
    const uint32_t tokens = state->tokens;
    if (state->listed == 0) return token < tokens ? token : kNoToken;
    uint32_t low = 0, high = tokens;
    while (low < high) {
      const uint32_t middle = (low + high) / 2;
      if (ids[middle] < token) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < tokens && ids[low] == token ? low : kNoToken;
  }
  TANDEM_HOST_DEVICE double Probability(uint32_t token) const {
    const uint32_t place = PlaceOf(token);
    return place == kNoToken ? 0 : weights[place];
  }
};

// A logit and its place in one integer; a smaller one is a better rank: a larger logit, then a
// lower place.
TANDEM_HOST_DEVICE uint64_t RankKey(float logit, uint32_t place) {
  const uint32_t bits = base::BitsAs<uint32_t>(logit + 0.0f);  // -0 and 0 are equal
  const uint32_t ascending = bits >> 31 ? ~bits : bits | 0x8000'0000u;
  return uint64_t{~ascending} << 32 | place;
}

TANDEM_HOST_DEVICE bool IsNan(float value) { return value != value; }
TANDEM_HOST_DEVICE bool IsInfinite(float value) { return value - value != 0 && !IsNan(value); }

// The key up to which there are `count` (at least 1, at most all) of those that each(t, visit)
// gives to visit(key), which differ from each other. Eight bits at a time.
template <typename Traits, typename Each>
TANDEM_HOST_DEVICE uint64_t SelectKey(const Block& block, JudgeShared<Traits>& shared,
                                      uint32_t count, Each each) {
  uint64_t prefix = 0, mask = 0;
  block.Threads([&](int t) {
    if (t == 0) shared.needed = count;
  });
  TANDEM_NO_UNROLL
  for (int shift = 56;; shift -= 8) {
    block.Threads([&](int t) {
      for (int bin = t; bin < 256; bin += Traits::kThreads) shared.histogram[bin] = 0;
    });
    block.Threads([&](int t) {
      // Neighbours often fall into one bin: they are counted together.
      uint32_t last = 0, run = 0;
      each(t, [&](uint64_t key) {
        if ((key & mask) != prefix) return;
        const uint32_t bin = static_cast<uint32_t>(key >> shift) & 255;
        if (bin != last && run > 0) {
          block.Add(shared.histogram[last], run);
          run = 0;
        }
        last = bin;
        ++run;
      });
      if (run > 0) block.Add(shared.histogram[last], run);
    });
    block.Threads([&](int t) {
      if (t != 0) return;
      uint32_t bin = 0;
      while (shared.histogram[bin] < shared.needed) shared.needed -= shared.histogram[bin++];
      shared.key = bin;
      shared.flag = shared.histogram[bin] == shared.needed;  // all of this bin
    });
    prefix |= block.Read(shared.key) << shift;
    mask |= uint64_t{255} << shift;
    if (block.Read(shared.flag) != 0 || shift == 0) return prefix | ~mask;
  }
}

// Keeps the entries of p that keep(place) wants, in their order. From then on they are listed.
template <typename Traits, typename Keep>
TANDEM_HOST_DEVICE void Compact(const Block& block, JudgeShared<Traits>& shared, const Row& row,
                                Keep keep) {
  constexpr int kThreads = Traits::kThreads;
  const uint32_t size = block.Read(row.state->tokens);
  uint32_t kept = 0;
  for (uint32_t chunk = 0; chunk < size; chunk += kThreads) {
    block.Threads([&](int t) {
      const uint32_t i = chunk + t;
      const bool keeps = i < size && keep(i);
      shared.counts[0][t] = keeps ? 1 : 0;
      if (!keeps) return;
      shared.best[t] = {row.weights[i], row.token(i)};
    });
    int now = 0;
    TANDEM_NO_UNROLL
    for (int distance = 1; distance < kThreads; distance *= 2) {
      const uint32_t* before = shared.counts[now];
      uint32_t* after = shared.counts[1 - now];
      block.Threads(
          [&](int t) { after[t] = before[t] + (t >= distance ? before[t - distance] : 0); });
      now = 1 - now;
    }
    const uint32_t* counts = shared.counts[now];
    block.Threads([&](int t) {
      const uint32_t before = t > 0 ? counts[t - 1] : 0;
      if (counts[t] == before) return;
      row.weights[kept + before] = shared.best[t].value;
      row.ids[kept + before] = shared.best[t].place;
    });
    kept += block.Read(counts[kThreads - 1]);
  }
  block.Threads([&](int t) {
    if (t != 0) return;
    row.state->tokens = kept;
    row.state->listed = 1;
  });
}

}  // namespace tandem::kernels
