// All that the orchestrator counts. Each field is the metric of its name; families.cc has the
// meanings. The names follow vLLM's where vLLM has the same metric.
#pragma once

#include <array>
#include <cstdint>

#include "orchestrator/draft/length/policy.h"
#include "orchestrator/metrics/histogram.h"
#include "orchestrator/request/request.h"

namespace tandem::orchestrator {

inline constexpr int kStatusCodes = 17;  // gRPC's, OK included
inline constexpr int kStages = 6;        // those of RoundStages, in its order

// A plain value. At all times, and so in every copy, these hold:
//   accepted_tokens <= draft_tokens; sum of accepted_at = accepted_tokens
//   generation_tokens = accepted_tokens + rounds - cut_tokens
//   tree_drafts <= drafts
//   rounds = drafts + sum of rounds_without_draft = count of round_seconds = count of each stage
//   sum of round_draft_queue <= sum of stage draft
//   sum of round_seconds = sum of all stages
//   count of inter_token_latency = generation_tokens less those of first rounds
//   count of e2e, request_prompt_tokens, request_prefill_time, … = sum of succeeded
//   queue + prefill + decode time of a request that ended OK = its e2e time
struct Totals {
  int64_t running = 0;
  int64_t waiting = 0;

  uint64_t prompt_tokens = 0;
  uint64_t generation_tokens = 0;
  uint64_t succeeded[2] = {};  // index: Finish
  uint64_t failed[kStatusCodes] = {};

  uint64_t rounds = 0;
  uint64_t drafts = 0;
  uint64_t tree_drafts = 0;
  uint64_t draft_tokens = 0;
  uint64_t accepted_tokens = 0;
  std::array<uint64_t, kMaxDraftTokens> accepted_at = {};  // by position
  uint64_t rejected_rounds = 0;
  uint64_t cut_tokens = 0;
  uint64_t rounds_without_draft[kPlainCauses] = {};
  uint64_t prepared_rounds[kPreparedUses] = {};
  std::array<uint64_t, kMaxDraftTokens + 1> chosen_lengths = {};  // rounds by what the policy chose
  uint64_t zero_rounds[kZeroCauses] = {};
  LengthEstimates estimates;  // the policy's last ones
  // Of requests that allow several drafters. [i]: of drafter_names[i]; [kMaxDrafters]: of all
  // further names.
  std::vector<std::string> drafter_names;
  std::array<DrafterCounts, kMaxDrafters + 1> drafters = {};
  uint64_t target_replays = 0;
  uint64_t cached_tokens = 0;
  uint64_t draft_reconnections = 0;
  uint64_t one_hot_blocks = 0;
  uint64_t requests_with_ignored_fields = 0;

  Histogram time_to_first_token{TimeScale()};
  Histogram inter_token_latency{TimeScale()};
  Histogram e2e_request_latency{RequestTimeScale()};
  Histogram request_queue_time{RequestTimeScale()};
  Histogram request_prefill_time{RequestTimeScale()};
  Histogram request_decode_time{RequestTimeScale()};
  Histogram request_prompt_tokens{NumberScale()};
  Histogram request_generation_tokens{NumberScale()};
  Histogram request_params_n{NumberScale()};
  Histogram request_params_max_tokens{NumberScale()};
  Histogram round_seconds{TimeScale()};
  Histogram round_draft_queue{TimeScale()};
  std::array<Histogram, kStages> stage_seconds = {Histogram(TimeScale()), Histogram(TimeScale()),
                                                  Histogram(TimeScale()), Histogram(TimeScale()),
                                                  Histogram(TimeScale()), Histogram(TimeScale())};
};

}  // namespace tandem::orchestrator
