// How a request went, as JSON: usage with the record of acceptance, vLLM's names for the same, and
// what Started said.
//
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <string>

#include "common/base/json.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// "greedy", "coupled" …
std::string RuleName(v1::Rule rule);

// OpenAI's `usage`, with the record as `speculation`.
base::JsonObject UsageJson(const v1::Last& last);
// vLLM's `metrics`, with `speculative_decoding` in it: of rounds that had a draft. `draft_tokens`:
// that were asked for in each round; absent: the length adapts, and is left out.
base::JsonObject MetricsJson(const v1::AcceptanceRecord& record,
                             std::optional<uint32_t> draft_tokens);
// The object `tandem` of answers: what is in force, and what the request can be looked up by.
base::JsonObject StartedJson(const v1::Started& started);
base::JsonObject TimingJson(const v1::Timing& timing);

// OpenAI's `system_fingerprint`: equal ones compute equal bits.
std::string Fingerprint(const std::string& model_id, const std::string& numerics_id);

}  // namespace tandem::orchestrator
