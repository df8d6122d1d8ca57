// The log probabilities that a verdict tells of one row.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/sampling/logprobs.h"
#include "tandem/v1/target.pb.h"

namespace tandem::target_service {

// Of the distribution that follows a node.
struct RowLogprobs {
  std::optional<float> candidate;   // of the candidate after the node; absent at the last one
  std::optional<float> next_token;  // of what follows if the block ends here; absent with it
  std::vector<sampling::TokenLogprob> top;
};

// Absent when the row has none: a logit is NaN or +infinity, or none is finite.
std::optional<RowLogprobs> TakeLogprobs(const sampling::Logprobs& logprobs,
                                        std::optional<uint32_t> candidate,
                                        std::optional<uint32_t> next_token, uint32_t top);

v1::NodeLogprobs ToWire(const RowLogprobs& logprobs);

}  // namespace tandem::target_service
