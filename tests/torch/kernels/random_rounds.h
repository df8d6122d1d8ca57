// Random rounds for the judge: settings with every option, and what drafts send.
//
// Thread safety: none of a Source.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <random>
#include <vector>

#include "common/sampling/parameters.h"
#include "common/sampling/sparse.h"
#include "common/speculation/sequence_settings.h"
#include "torch/kernels/judge_row.h"

namespace tandem::kernels {

// Small blocks, so that rows of a few hundred tokens take many turns of every loop.
struct SmallTraits {
  static constexpr int kThreads = 32;
  static constexpr int kRun = 4;
  static constexpr int kSorted = 16;
  static constexpr uint32_t kColumn = 64;
  static inline double kNearTie = 1e-12;
  static inline JudgeFault kFault = JudgeFault::kNone;
};

class Source {
 public:
  explicit Source(uint64_t seed) : random_(seed) {}

  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }
  bool OneIn(uint32_t n) { return Below(n) == 0; }
  double Uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  uint64_t Bits() { return random_(); }
  template <typename T>
  T Of(std::initializer_list<T> choices) {
    return choices.begin()[Below(static_cast<uint32_t>(choices.size()))];
  }
  std::vector<uint32_t> Tokens(uint32_t count, uint32_t bound) {
    std::vector<uint32_t> tokens(count);
    for (uint32_t& token : tokens) token = Below(bound);
    return tokens;
  }

 private:
  std::mt19937_64 random_;
};

inline sampling::SamplingParameters RandomParameters(Source& random, uint32_t vocabulary) {
  sampling::SamplingParameters p;
  p.temperature = random.Of({0.0, 0.7, 1.0, 1.0, 1.3, 100.0, 1e-3, 1e-305});
  p.top_k = random.Of({0u, 0u, 0u, 1u, 2u, 7u, 40u, vocabulary, vocabulary + 3});
  p.top_p = random.Of({1.0, 1.0, 0.95, 0.5, 0.9999999, 1e-9, random.Uniform() + 1e-12});
  p.min_p = random.Of({0.0, 0.0, 0.0, 0.05, 0.5, 1.0});
  if (random.OneIn(3)) {
    p.repetition_penalty = random.Of({1.0, 1.2, 0.5, 10.0});
    p.presence_penalty = random.Of({0.0, 0.3, -2.0});
    p.frequency_penalty = random.Of({0.0, 0.1, 2.0});
  }
  if (random.OneIn(4)) {
    for (uint32_t i = 0; i < 5; ++i) {
      // Distinct tokens, some beyond the vocabulary.
      p.bias.push_back({random.Below(vocabulary / 4 + 2) * 5 + i, 6 * random.Uniform() - 3});
    }
  }
  if (random.OneIn(5)) p.banned = random.Tokens(1 + random.Below(5), vocabulary + 2);
  if (random.OneIn(6)) p.allowed = random.Tokens(1 + random.Below(20), vocabulary + 2);
  if (random.OneIn(4)) {
    p.min_tokens = random.Below(12);
    p.stop_token_ids = random.Tokens(random.Below(4), vocabulary + 1);
  }
  return p;
}

// Something like what drafts send: sparse, near p, or all on the draft token.
inline sampling::SparseDistribution RandomQ(Source& random, uint32_t candidate,
                                            uint32_t vocabulary) {
  sampling::SparseDistribution q;
  if (random.OneIn(3) || candidate >= vocabulary) return q;
  std::vector<uint32_t> ids = {candidate};
  for (uint32_t i = random.Below(random.OneIn(5) ? 63 : 6); i > 0; --i) {
    const uint32_t token = random.Below(vocabulary);
    if (std::find(ids.begin(), ids.end(), token) == ids.end()) ids.push_back(token);
  }
  q.ids = ids;
  for (size_t i = 0; i < ids.size(); ++i) q.weights.push_back(1 + random.Below(65535));
  return q;
}

// The node that each of so many tokens follows; now and then a chain. Siblings are different
// tokens: where two would be equal, the later one follows it.
inline std::vector<uint32_t> RandomParents(Source& random, const std::vector<uint32_t>& tokens) {
  const bool chain = random.OneIn(5);
  std::vector<uint32_t> parents;
  for (uint32_t i = 0; i < tokens.size(); ++i) {
    uint32_t parent = chain ? i : random.Below(i + 1);
    for (uint32_t other = 0; other < i; ++other) {
      if (parents[other] == parent && tokens[other] == tokens[i]) parent = other + 1;
    }
    parents.push_back(parent);
  }
  return parents;
}

inline speculation::SequenceSettings RandomSettings(Source& random, uint32_t vocabulary) {
  using acceptance::Rule;
  speculation::SequenceSettings s;
  s.sampling = RandomParameters(random, vocabulary);
  s.rule = s.sampling.greedy()
               ? random.Of({Rule::kGreedy, Rule::kGreedy, Rule::kLenient})
               : random.Of({Rule::kSpeculative, Rule::kBlock, Rule::kCoupled, Rule::kLenient});
  if (s.rule == Rule::kLenient) s.leniency = random.Of({1.0, 0.5, 0.1});
  s.seed = random.Bits();
  s.sample_index = random.Below(65536);
  s.prompt_tokens = random.Below(20);
  if (random.OneIn(2)) {
    s.logprobs = {.top = random.Of({0u, 1u, 5u, 20u}), .processed = random.OneIn(2)};
  }
  return s;
}

template <typename Number>
bool SameBits(const Number& a, const Number& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

inline bool SameLogprob(const std::optional<float>& a, const std::optional<float>& b) {
  return a.has_value() == b.has_value() && (!a.has_value() || SameBits(*a, *b));
}

}  // namespace tandem::kernels
