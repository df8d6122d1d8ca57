// SequenceOptions (tokens.proto) as a service takes them: checked, and refused by name where a
// feature is not served yet, so that no option is ever ignored.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <variant>

#include "common/acceptance/rule.h"
#include "common/rpc/refusal.h"
#include "common/sampling/distribution.h"

namespace tandem::rpc {

// Of a request: 0 is normal, up to this one before others.
inline constexpr uint32_t kMostPriority = 10;

struct SequenceSettings {
  sampling::SamplingParameters sampling;
  uint64_t seed = 0;
  uint32_t sample_index = 0;  // below 65536
  uint32_t prompt_tokens = 0;
  uint32_t most_tokens = 0;  // 1 to the receiver's context length
  uint32_t priority = 0;     // 0 to kMostPriority
  // Greedy at temperature 0 under any rule; then nothing else of `sampling` matters.
  acceptance::Rule rule = acceptance::Rule::kGreedy;
};

// `context_length`: the most that options.most_tokens may be. The refusal is INVALID; its field
// begins with "options".
std::variant<SequenceSettings, Refusal> CheckSequenceOptions(const v1::SequenceOptions& options,
                                                             uint32_t context_length);

}  // namespace tandem::rpc
