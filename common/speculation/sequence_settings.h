// What target and draft are told of a sequence: how its tokens are drawn and judged, and how long
// it may get. The orchestrator sends it with the first Step and with Open (SequenceOptions of
// tokens.proto); the services check what they receive (sequence_options.h) and keep it in the same
// struct.
//
// No message of the wire and nothing of gRPC is in here: what computes a model may include it.
//
// Thread safety: a plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/acceptance/rule.h"
#include "common/sampling/logprobs.h"
#include "common/sampling/parameters.h"

namespace tandem::speculation {

struct SequenceSettings {
  sampling::SamplingParameters sampling;  // for a draft, the temperature is the draft's own
  // At temperature 0 greedy or lenient, above it any other.
  acceptance::Rule rule = acceptance::Rule::kGreedy;
  std::optional<double> leniency;  // above 0, to 1; with rule lenient, and only then
  uint64_t seed = 0;               // for a draft derived, but under rule coupled
  uint32_t sample_index = 0;       // below 65536
  uint32_t prompt_tokens = 0;      // at most max_length
  uint32_t max_length = 0;         // tokens, prompt included; 1 to the receiver's context length
  uint32_t priority = 0;           // 0 is normal, to 10 before others
  // Prefixes are shared within a scope; at most 64 bytes. Empty: with nobody.
  std::string cache_scope;
  std::optional<sampling::LogprobOptions> logprobs;  // absent: none are wanted; never for a draft
  // Draft tokens of the trees that come, under a rule that has trees (acceptance/tree.h); 0: chains
  // alone. At most kMaxTreeNodes (candidate_tree.h).
  uint32_t max_nodes = 0;
};

}  // namespace tandem::speculation
