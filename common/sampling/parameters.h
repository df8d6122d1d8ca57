// What a request says about how its tokens are drawn.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace tandem::sampling {

inline constexpr double kMaxTemperature = 100;
inline constexpr double kMaxRepetitionPenalty = 10;
inline constexpr double kMaxPenalty = 2;           // presence and frequency, either sign
inline constexpr double kMaxBias = 100;            // either sign
inline constexpr size_t kMaxListedTokens = 16384;  // biased, banned, allowed: each
inline constexpr size_t kMaxEndTokens = 128;

struct TokenBias {
  uint32_t token = 0;
  double bias = 0;  // added to the logit

  bool operator==(const TokenBias&) const = default;
};

// Applied in this order: bias, bans, minimum tokens, penalties, temperature, top-k, top-p, min-p.
// Ties at a cut are broken towards the lower id. distribution.h and logits.h have the formulas.
struct SamplingParameters {
  // 0 to 100; 0: all probability on the largest logit, ties to the lowest id.
  double temperature = 1;
  uint32_t top_k = 0;             // 0 = all
  double top_p = 1;               // above 0, to 1
  double min_p = 0;               // 0 to 1: least share of the largest probability
  double repetition_penalty = 1;  // above 0, to 10; of tokens of prompt and output
  double presence_penalty = 0;    // -2 to 2; of tokens of the output
  double frequency_penalty = 0;   // -2 to 2; times the token's count in the output
  std::vector<TokenBias> bias;    // distinct tokens
  std::vector<uint32_t> banned;
  std::vector<uint32_t> allowed;         // empty: all
  uint32_t min_tokens = 0;               // of output, before which stop_token_ids have p = 0
  std::vector<uint32_t> stop_token_ids;  // ids that end the text

  bool greedy() const { return temperature == 0; }
  // True if the distribution depends on the tokens before it in another way than through the model.
  bool looks_back() const {
    return min_tokens > 0 || repetition_penalty != 1 || presence_penalty != 0 ||
           frequency_penalty != 0;
  }

  bool operator==(const SamplingParameters&) const = default;
};

// INVALID_ARGUMENT naming the parameter as SamplingOptions (sampling.proto) spells it, and its
// value: biases out of their range, ids that are not below `vocabulary_size` (0: not known, so not
// checked), a set of allowed tokens of which the bans leave none, or, with minimum tokens, end
// tokens only. The ranges of the numbers and the lengths of the lists:
// common/messages/request_options.h.
absl::Status Validate(const SamplingParameters& parameters, uint32_t vocabulary_size = 0);

}  // namespace tandem::sampling
