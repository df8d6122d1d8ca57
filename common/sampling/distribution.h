// From logits to the distribution that a token is drawn from.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/sampling/parameters.h"

namespace tandem::sampling {

class TokenHistory;

// A probability distribution over token ids, zero where it has no entry.
// Invariant: ids ascend; as many probabilities, each > 0; their sum is 1 within 1e-12.
struct Distribution {
  std::vector<uint32_t> ids;
  std::vector<double> probabilities;

  double operator()(uint32_t token) const;  // p(token); 0 where there is no entry. O(log n)
};

// p after all parameters. `logits`: [vocabulary]; ids at and above `vocabulary_size` (padding of
// the embedding) get p = 0. Deterministic: the same bits for the same input, on every machine.
//
//   ProcessLogits (logits.h)
//   temperature  weight = exp((logit - largest) / temperature); 0: all on the largest logit, ties
//                to the lowest id, and nothing below matters
//   top-k        the k largest logits, ties to the lower id
//   top-p        of these the fewest, largest first, whose weights reach top_p of their sum
//   min-p        of these the ones whose weight is at least min_p of the largest
//   p            the weights that are left, by their sum
//
// -infinity is a legal logit, of probability 0; so is one so far below the largest that its
// probability is below 1e-304 of it. A NaN or +infinity among the logits that count, or no finite
// one, is a model failure: the result is then empty (ids and probabilities of size 0), at every
// temperature, and the caller answers INTERNAL. top-k and top-p rank by logit.
// `history`: the tokens before this one, draft tokens included, for what looks back
// (SamplingParameters::looks_back).
Distribution MakeDistribution(absl::Span<const float> logits, uint32_t vocabulary_size,
                              const SamplingParameters& parameters, const TokenHistory& history);

// For parameters that do not look back (a CHECK).
Distribution MakeDistribution(absl::Span<const float> logits, uint32_t vocabulary_size,
                              const SamplingParameters& parameters);

// argmax of the logits, ties to the lowest id: what temperature 0 means. A NaN never wins; 0 if all
// are.
uint32_t ArgMax(absl::Span<const float> logits, uint32_t vocabulary_size);

// Draws by inverse distribution function: the first id whose cumulative probability exceeds u.
// u in [0, 1); p not empty.
uint32_t Draw(const Distribution& p, double u);

// Draws by the Gumbel race argmin over tokens of -log(1 - u_token) / p(token), with one number a
// token (random::TokenUniform). Plain decoding; a drafter with the same noise would often draw the
// same.
uint32_t DrawRace(const Distribution& p, uint64_t seed, uint32_t sample_index, uint32_t position);

// A token, and what it is ranked by.
struct RankedToken {
  uint32_t token = 0;
  double score = 0;
};
// The first `count` (at least 1) of the race, or all, in the order in which they arrive: the winner
// of DrawRace, then those that would win without the ones before. The score is minus the logarithm
// of the time: log p(token) and the noise.
std::vector<RankedToken> RankRace(const Distribution& p, uint64_t seed, uint32_t sample_index,
                                  uint32_t position, size_t count);
// The likeliest `count` (at least 1), or all, of equals the lowest id first. The score is log
// p(token).
std::vector<RankedToken> RankLikeliest(const Distribution& p, size_t count);

}  // namespace tandem::sampling
