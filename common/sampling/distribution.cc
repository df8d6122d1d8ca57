#include "common/sampling/distribution.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "common/base/check.h"
#include "common/random/random.h"
#include "common/sampling/elementary.h"
#include "common/sampling/exp_groups.h"
#include "common/sampling/logits.h"
#include "common/sampling/token_history.h"

namespace tandem::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Largest {
  float value = -kInfinity;  // NaNs left out
  bool has_nan = false;
  size_t legal = 0;  // how many are above -infinity
};

// Four lanes, element by element: any order gives the same largest value.
Largest FindLargest(absl::Span<const float> logits) {
  using Floats = float __attribute__((vector_size(16)));
  using Integers = int32_t __attribute__((vector_size(16)));
  Floats largest = {-kInfinity, -kInfinity, -kInfinity, -kInfinity};
  Integers nan = {}, legal = {};
  size_t i = 0;
  for (; i + 4 <= logits.size(); i += 4) {
    Floats x;
    std::memcpy(&x, logits.data() + i, sizeof(x));
    nan |= x != x;  // NOLINT(misc-redundant-expression): NaN is what differs from itself
    legal -= x > -kInfinity;
    largest = x > largest ? x : largest;
  }
  Largest result;
  result.has_nan = (nan[0] | nan[1] | nan[2] | nan[3]) != 0;
  for (int lane = 0; lane < 4; ++lane) {
    result.value = std::max(result.value, largest[lane]);
    result.legal += static_cast<size_t>(legal[lane]);
  }
  for (; i < logits.size(); ++i) {
    if (std::isnan(logits[i])) result.has_nan = true;
    if (logits[i] > -kInfinity) ++result.legal;
    if (logits[i] > result.value) result.value = logits[i];
  }
  return result;
}

absl::Span<const float> Counting(absl::Span<const float> logits, uint32_t vocabulary_size) {
  TANDEM_CHECK(!logits.empty() && vocabulary_size > 0);
  return logits.subspan(0, std::min<size_t>(logits.size(), vocabulary_size));
}

// A logit and its id in one integer, such that a smaller one is a better rank: a larger logit, then
// a lower id.
uint64_t RankKey(float logit, uint32_t id) {
  logit += 0.0f;  // -0 and 0 are equal
  uint32_t bits;
  std::memcpy(&bits, &logit, sizeof(bits));
  const uint32_t ascending = bits >> 31 ? ~bits : bits | 0x8000'0000;
  return uint64_t{~ascending} << 32 | id;
}
uint32_t IdOf(uint64_t rank_key) { return static_cast<uint32_t>(rank_key); }

// The top_k best ids, ascending.
std::vector<uint32_t> TopK(absl::Span<const float> logits, uint32_t top_k) {
  std::vector<uint64_t> keys(logits.size());
  for (uint32_t id = 0; id < keys.size(); ++id) keys[id] = RankKey(logits[id], id);
  std::nth_element(keys.begin(), keys.begin() + top_k - 1, keys.end());
  std::vector<uint32_t> ids(top_k);
  std::transform(keys.begin(), keys.begin() + top_k, ids.begin(), IdOf);
  std::sort(ids.begin(), ids.end());
  return ids;
}

bool KeepsNearlyAll(double top_p) { return top_p < 1 && 1 - top_p < 1e-6; }

// Keeps of `ids` (ascending, weights beside them, sum_of_all in all) the fewest best ones whose
// weights reach top_p of the sum. Sorts only as far as it has to.
void TopP(absl::Span<const float> logits, double top_p, double sum_of_all,
          std::vector<uint32_t>& ids, std::vector<double>& weights) {
  struct Ranked {
    uint64_t key;
    double weight;
    bool operator<(const Ranked& other) const { return key < other.key; }
  };
  // All tokens below this weight hold together at most half of what may be cut, so none is kept.
  // (Half: far more than rounding needs, unless next to nothing may be cut.)
  double min = (1 - top_p) / 2 * sum_of_all / static_cast<double>(ids.size());
  if (KeepsNearlyAll(top_p)) min = 0;
  std::vector<Ranked> ranked;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (weights[i] >= min) ranked.push_back({RankKey(logits[ids[i]], ids[i]), weights[i]});
  }
  const double min_sum = top_p * sum_of_all;
  double sum = 0;
  size_t kept = 0;
  for (size_t sorted = 0, step = 64; kept == sorted && sorted < ranked.size() && sum < min_sum;
       step *= 4) {
    const size_t end = std::min(ranked.size(), sorted + step);
    if (end < ranked.size()) {
      std::nth_element(ranked.begin() + sorted, ranked.begin() + end, ranked.end());
    }
    std::sort(ranked.begin() + sorted, ranked.begin() + end);
    while (kept < end && sum < min_sum) sum += ranked[kept++].weight;
    sorted = end;
  }
  ranked.resize(kept);
  std::sort(ranked.begin(), ranked.end(),
            [](const Ranked& a, const Ranked& b) { return IdOf(a.key) < IdOf(b.key); });
  ids.resize(kept);
  weights.resize(kept);
  for (size_t i = 0; i < kept; ++i) {
    ids[i] = IdOf(ranked[i].key);
    weights[i] = ranked[i].weight;
  }
}

// Drops what has less than this share of the largest weight. True: something went.
bool MinP(double min_p, std::vector<uint32_t>& ids, std::vector<double>& weights) {
  const double min = min_p * *std::max_element(weights.begin(), weights.end());
  size_t kept = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (weights[i] < min) continue;
    ids[kept] = ids[i];
    weights[kept++] = weights[i];
  }
  const bool any = kept < ids.size();
  ids.resize(kept);
  weights.resize(kept);
  return any;
}

// In the order of ids.
double Sum(absl::Span<const double> values) {
  double sums[4] = {};
  for (size_t i = 0; i < values.size(); ++i) sums[i % 4] += values[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

std::vector<uint32_t> FirstIds(size_t count) {
  using Ids = uint32_t __attribute__((vector_size(16)));
  std::vector<uint32_t> ids(count);
  Ids next = {0, 1, 2, 3};
  size_t i = 0;
  for (; i + 4 <= count; i += 4, next += 4) std::memcpy(ids.data() + i, &next, sizeof(next));
  for (; i < count; ++i) ids[i] = static_cast<uint32_t>(i);
  return ids;
}

// The ids of the logits above -infinity, `count` of them.
std::vector<uint32_t> LegalIds(absl::Span<const float> logits, size_t count) {
  std::vector<uint32_t> ids(count + 1);  // one for those that are passed over after the last
  size_t found = 0;
  for (size_t id = 0; id < logits.size(); ++id) {
    ids[found] = static_cast<uint32_t>(id);
    found += logits[id] > -kInfinity;
  }
  ids.resize(count);
  return ids;
}

// Makes the probabilities of p the weights of its ids, and returns their sum.
double WeighIds(absl::Span<const float> logits, float largest, double scale, Distribution& p) {
  std::vector<float> kept(p.ids.size());
  for (size_t i = 0; i < kept.size(); ++i) kept[i] = logits[p.ids[i]];
  p.probabilities.resize(kept.size());
  return ExpAll(kept, largest, scale, absl::MakeSpan(p.probabilities));
}

// What ExpAll returns of all logits, where those without an id have none.
double SumAsOfAll(const Distribution& p) {
  double sums[kExpGroup] = {};
  for (size_t i = 0; i < p.ids.size(); ++i) sums[p.ids[i] % kExpGroup] += p.probabilities[i];
  return TotalOf(sums);
}

void DropZeros(Distribution& p) {
  size_t kept = 0;
  for (size_t i = 0; i < p.ids.size(); ++i) {
    if (p.probabilities[i] == 0) continue;
    p.ids[kept] = p.ids[i];
    p.probabilities[kept++] = p.probabilities[i];
  }
  p.ids.resize(kept);
  p.probabilities.resize(kept);
}

}  // namespace

double Distribution::operator()(uint32_t token) const {
  // With all ids from 0 on, an id is its own index.
  if (token < ids.size() && ids[token] == token) return probabilities[token];
  auto it = std::lower_bound(ids.begin(), ids.end(), token);
  return it != ids.end() && *it == token ? probabilities[it - ids.begin()] : 0;
}

uint32_t ArgMax(absl::Span<const float> logits, uint32_t vocabulary_size) {
  logits = Counting(logits, vocabulary_size);
  const float largest = FindLargest(logits).value;
  auto it = std::find(logits.begin(), logits.end(), largest);
  return it == logits.end() ? 0 : static_cast<uint32_t>(it - logits.begin());
}

namespace {

// Temperature, top-k, top-p, min-p.
Distribution FromProcessed(absl::Span<const float> logits, uint32_t vocabulary_size,
                           const SamplingParameters& parameters) {
  logits = Counting(logits, vocabulary_size);
  const Largest largest = FindLargest(logits);
  if (largest.has_nan || std::isinf(largest.value)) return {};
  Distribution p;
  if (parameters.greedy()) {
    p.ids = {ArgMax(logits, vocabulary_size)};
    p.probabilities = {1};
    return p;
  }
  // A temperature below 1e-300 is as good as 0, and its inverse is a number.
  const double scale = std::min(1 / parameters.temperature, 1e300);
  double sum;
  bool dropped = false;
  if (parameters.top_k > 0 && parameters.top_k < logits.size()) {
    p.ids = TopK(logits, parameters.top_k);
    sum = WeighIds(logits, largest.value, scale, p);
  } else if (largest.legal <= logits.size() / 2 && !KeepsNearlyAll(parameters.top_p)) {
    // A draft may have logits for a part of its target's vocabulary alone. The same bits; a top-p
    // of next to 1 may keep ids without a probability, which count in the order of its sum.
    p.ids = LegalIds(logits, largest.legal);
    WeighIds(logits, largest.value, scale, p);
    sum = SumAsOfAll(p);
    dropped = true;
  } else {
    p.ids = FirstIds(logits.size());
    p.probabilities.resize(logits.size());
    sum = ExpAll(logits, largest.value, scale, absl::MakeSpan(p.probabilities));
  }
  if (parameters.top_p < 1) {
    TopP(logits, parameters.top_p, sum, p.ids, p.probabilities);
    sum = Sum(p.probabilities);
  }
  if (parameters.min_p > 0) {
    dropped |= MinP(parameters.min_p, p.ids, p.probabilities);
    if (dropped) sum = Sum(p.probabilities);
  }
  if (ScaleAll(1 / sum, absl::MakeSpan(p.probabilities))) DropZeros(p);
  return p;
}

}  // namespace

Distribution MakeDistribution(absl::Span<const float> logits, uint32_t vocabulary_size,
                              const SamplingParameters& parameters, const TokenHistory& history) {
  if (!ChangesLogits(parameters, history)) {
    return FromProcessed(logits, vocabulary_size, parameters);
  }
  // Kept by the thread: freed, it would go back to the system and be asked for again for each row.
  thread_local std::vector<float> processed;
  ProcessLogitsInto(logits, vocabulary_size, parameters, history, processed);
  return FromProcessed(processed, vocabulary_size, parameters);
}

Distribution MakeDistribution(absl::Span<const float> logits, uint32_t vocabulary_size,
                              const SamplingParameters& parameters) {
  TANDEM_CHECK(!parameters.looks_back()) << "penalties and minimum tokens need the history";
  return MakeDistribution(logits, vocabulary_size, parameters, TokenHistory());
}

uint32_t Draw(const Distribution& p, double u) {
  TANDEM_CHECK(!p.ids.empty()) << "a draw from no tokens";
  double cumulative = 0;
  for (size_t i = 0; i < p.ids.size(); ++i) {
    cumulative += p.probabilities[i];
    if (cumulative > u) return p.ids[i];
  }
  return p.ids.back();  // the sum fell short of 1 by rounding
}

namespace {

// Calls runner(i, number) for the tokens of p in order, i being an index of p, with the number of
// each one's noise: as many at a time as the nearest cache holds.
template <typename Runner>
void ForEachNumber(const Distribution& p, uint64_t seed, uint32_t sample_index, uint32_t position,
                   Runner runner) {
  constexpr size_t kAtOnce = 512;
  double numbers[kAtOnce];
  const absl::Span<const uint32_t> ids = p.ids;
  for (size_t first = 0; first < ids.size(); first += kAtOnce) {
    const size_t count = std::min(kAtOnce, ids.size() - first);
    random::TokenUniforms(seed, sample_index, position, ids.subspan(first, count),
                          absl::MakeSpan(numbers, count));
    for (size_t i = 0; i < count; ++i) runner(first + i, numbers[i]);
  }
}

}  // namespace

uint32_t DrawRace(const Distribution& p, uint64_t seed, uint32_t sample_index, uint32_t position) {
  TANDEM_CHECK(!p.ids.empty()) << "a race of no tokens";
  double best = std::numeric_limits<double>::infinity();
  uint32_t winner = p.ids[0];
  ForEachNumber(p, seed, sample_index, position, [&](size_t i, double number) {
    // -log(1 - u) >= u: most tokens need no logarithm. 1 - u is exact.
    if (number >= best * p.probabilities[i]) return;
    const double time = -Log(1 - number) / p.probabilities[i];
    if (time < best) {
      best = time;
      winner = p.ids[i];
    }
  });
  return winner;
}

std::vector<RankedToken> RankRace(const Distribution& p, uint64_t seed, uint32_t sample_index,
                                  uint32_t position, size_t count) {
  TANDEM_CHECK(!p.ids.empty() && count > 0);
  struct Runner {
    double time;
    size_t index;
    bool operator<(const Runner& other) const {
      return time != other.time ? time < other.time : index < other.index;
    }
  };
  std::vector<Runner> first;  // a heap, the last one on top
  ForEachNumber(p, seed, sample_index, position, [&](size_t i, double number) {
    // As in DrawRace: most tokens need no logarithm.
    if (first.size() == count && number >= first.front().time * p.probabilities[i]) return;
    const Runner runner{-Log(1 - number) / p.probabilities[i], i};
    if (first.size() == count) {
      if (!(runner < first.front())) return;
      std::pop_heap(first.begin(), first.end());
      first.pop_back();
    }
    first.push_back(runner);
    std::push_heap(first.begin(), first.end());
  });
  std::sort_heap(first.begin(), first.end());
  std::vector<RankedToken> ranked;
  ranked.reserve(first.size());
  for (const Runner& runner : first) ranked.push_back({p.ids[runner.index], -Log(runner.time)});
  return ranked;
}

std::vector<RankedToken> RankLikeliest(const Distribution& p, size_t count) {
  TANDEM_CHECK(!p.ids.empty() && count > 0);
  std::vector<size_t> order(p.ids.size());
  std::iota(order.begin(), order.end(), size_t{0});
  order.resize(std::min(count, order.size()));
  std::vector<size_t> all(p.ids.size());
  std::iota(all.begin(), all.end(), size_t{0});
  std::partial_sort_copy(
      all.begin(), all.end(), order.begin(), order.end(), [&p](size_t a, size_t b) {
        return p.probabilities[a] != p.probabilities[b] ? p.probabilities[a] > p.probabilities[b]
                                                        : p.ids[a] < p.ids[b];
      });
  std::vector<RankedToken> ranked;
  ranked.reserve(order.size());
  for (size_t i : order) ranked.push_back({p.ids[i], Log(p.probabilities[i])});
  return ranked;
}

}  // namespace tandem::sampling
