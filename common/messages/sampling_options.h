// SamplingOptions and LogprobOptions (sampling.proto) to and from our own values.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <optional>

#include "common/acceptance/rule.h"
#include "common/sampling/logprobs.h"
#include "common/sampling/parameters.h"
#include "tandem/v1/sampling.pb.h"

namespace tandem::messages {

// What `options` says, and `defaults` where it says nothing. stop_token_ids stay those of
// `defaults`: they travel in SequenceOptions. Not validated: CheckRanges (request_options.h) and
// sampling::Validate do that.
sampling::SamplingParameters FromWire(const v1::SamplingOptions& options,
                                      const sampling::SamplingParameters& defaults = {});

// Sets all fields; stop_token_ids is none of them.
v1::SamplingOptions ToWire(const sampling::SamplingParameters& parameters);

sampling::LogprobOptions FromWire(const v1::LogprobOptions& options);
v1::LogprobOptions ToWire(const sampling::LogprobOptions& options);

v1::Rule ToWire(acceptance::Rule rule);
// Nullopt: RULE_UNSPECIFIED, or an unknown rule.
std::optional<acceptance::Rule> FromWire(v1::Rule rule);

}  // namespace tandem::messages
