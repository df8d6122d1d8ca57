// SequenceOptions (tokens.proto) as a service takes them: checked, and refused by name where a
// feature is not served yet, so that no option is ever ignored.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "common/acceptance/rule.h"
#include "common/messages/refusal.h"
#include "common/sampling/distribution.h"
#include "common/sampling/logprobs.h"

namespace tandem::speculation {

// Of a request: 0 is normal, up to this one before others.
inline constexpr uint32_t kMaxPriority = 10;

struct SequenceSettings {
  sampling::SamplingParameters sampling;
  uint64_t seed = 0;
  uint32_t sample_index = 0;  // below 65536
  uint32_t prompt_tokens = 0;
  uint32_t max_length = 0;  // 1 to the receiver's context length
  uint32_t priority = 0;    // 0 to kMaxPriority
  // At temperature 0 greedy or lenient, above it any other.
  acceptance::Rule rule = acceptance::Rule::kGreedy;
  double leniency = 1;                               // above 0, to 1; rule lenient only
  std::optional<sampling::LogprobOptions> logprobs;  // absent: none are wanted
};

// `context_length`: the most that options.max_length may be. `vocabulary_size`: what listed ids must be
// below. The refusal is INVALID; its field begins with "options".
std::variant<SequenceSettings, messages::Refusal> CheckSequenceOptions(
    const v1::SequenceOptions& options, uint32_t context_length, uint32_t vocabulary_size);

}  // namespace tandem::speculation
