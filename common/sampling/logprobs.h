// Log probabilities as clients ask for them: those of a token, and of the most likely tokens beside
// it.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "common/sampling/distribution.h"

namespace tandem::sampling {

inline constexpr uint32_t kMaxTopLogprobs = 20;

struct LogprobOptions {
  uint32_t top = 0;        // alternatives per token, 0 to kMaxTopLogprobs
  bool processed = false;  // of p; else of the model itself: all logits, temperature 1

  bool operator==(const LogprobOptions&) const = default;
};

struct TokenLogprob {
  uint32_t token = 0;
  float logprob = 0;  // natural; -infinity where the probability is 0

  bool operator==(const TokenLogprob&) const = default;
};

// What a client is told about the distribution that follows one node of a block, or one token of a
// prompt.
struct NodeLogprobs {
  std::optional<float> candidate;   // of the draft token (the prompt's token) that follows the node
  std::optional<float> next_token;  // of what follows if the block ends there
  std::vector<TokenLogprob> top;    // most likely first
};

// The log probabilities of one row. Keeps a view of its input. Gives the same bits on every
// machine.
class Logprobs {
 public:
  // log softmax of the logits, as the model gave them, ids below vocabulary_size. All log
  // probabilities are NaN when a logit is NaN or +infinity, or none is finite.
  static Logprobs OfModel(absl::Span<const float> logits, uint32_t vocabulary_size);
  // log p. With an empty p (the logits were not finite) they are all -infinity.
  static Logprobs OfDistribution(const Distribution& p);

  float operator()(uint32_t token) const;  // -infinity for an id outside the vocabulary
  // The `count` most likely tokens, falling; ties, of logits or of probabilities, to the lower id;
  // only tokens of probability above 0. None when the log probabilities are NaN.
  std::vector<TokenLogprob> Top(uint32_t count) const;

 private:
  float largest_ = 0;   // of the logits
  double log_sum_ = 0;  // of exp(logit - largest); NaN: so are all
  absl::Span<const float> logits_;
  const Distribution* p_ = nullptr;
};

}  // namespace tandem::sampling
