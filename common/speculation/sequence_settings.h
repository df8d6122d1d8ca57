// What a request chose for one of its sequences, checked: how its tokens are drawn, judged, told.
//
// No message of the wire and nothing of gRPC is in here: what computes a model may include it.
//
// Thread safety: plain values.
#pragma once

#include <cstdint>
#include <optional>

#include "common/acceptance/rule.h"
#include "common/sampling/logprobs.h"
#include "common/sampling/parameters.h"

namespace tandem::speculation {

struct SequenceSettings {
  sampling::SamplingParameters sampling;
  uint64_t seed = 0;
  uint32_t sample_index = 0;  // below 65536
  uint32_t prompt_tokens = 0;
  uint32_t max_length = 0;  // 1 to the receiver's context length
  uint32_t priority = 0;    // 0 to kMaxPriority (sequence_options.h)
  // At temperature 0 greedy or lenient, above it any other.
  acceptance::Rule rule = acceptance::Rule::kGreedy;
  double leniency = 1;                               // above 0, to 1; rule lenient only
  std::optional<sampling::LogprobOptions> logprobs;  // absent: none are wanted
};

}  // namespace tandem::speculation
