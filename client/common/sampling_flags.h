// The flags for sampling, rule and draft. `generate` and `bench` share them.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/flags/flag_set.h"
#include "common/sampling/parameters.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::client {

inline constexpr uint32_t kMaxDraftTokens = 16;

// An absent value means the default of the service or of the model.
struct SamplingFlags {
  std::optional<double> temperature;
  std::optional<uint64_t> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  std::vector<sampling::TokenBias> logit_bias;
  std::vector<uint32_t> banned_token_ids;
  std::vector<uint32_t> allowed_token_ids;  // empty: all
  uint64_t min_tokens = 0;
  std::optional<uint64_t> seed;

  std::string rule;  // greedy, speculative, block, coupled, lenient; empty: by default
  std::optional<double> leniency;  // set exactly with rule lenient
  std::string drafter;             // empty: the draft service's default
  std::string proposal;            // sampled, greedy; empty: the draft service's default
  std::optional<double> draft_temperature;
  std::optional<uint32_t> draft_tokens;        // absent: the length policy decides
  std::string length_policy;                   // auto, heuristic; empty: the orchestrator's default
  std::optional<uint32_t> draft_nodes;         // of a tree; 0: chains; absent: the length policy's
  std::optional<double> draft_min_confidence;  // ends a chain; absent: the length policy's

  void AddTo(flags::FlagSet& flags);
  absl::Status Validate() const;  // checks flags against each other; names the flag
  // Fills sampling, seed and speculation.
  void Apply(v1::GenerateRequest& request) const;
};

}  // namespace tandem::client
