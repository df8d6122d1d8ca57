// The log probabilities that a verdict tells of one row.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "common/sampling/logprobs.h"

namespace tandem::target_service {

// Absent when the row has none: a logit is NaN or +infinity, or none is finite.
std::optional<sampling::NodeLogprobs> NodeLogprobsOf(const sampling::Logprobs& logprobs,
                                                     std::optional<uint32_t> candidate,
                                                     std::optional<uint32_t> next_token,
                                                     uint32_t top);

}  // namespace tandem::target_service
