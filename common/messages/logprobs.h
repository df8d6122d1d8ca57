// Log probabilities to and from the wire (sampling.proto, target.proto).
//
// Thread safety: plain values and pure functions.
#pragma once

#include "absl/types/span.h"
#include "common/sampling/logprobs.h"
#include "tandem/internal/v1/target.pb.h"
#include "tandem/v1/sampling.pb.h"

namespace tandem::messages {

v1::TopLogprobs ToWire(absl::Span<const sampling::TokenLogprob> top);

// What is absent, or empty, is not set.
internal::v1::NodeLogprobs ToWire(const sampling::NodeLogprobs& node);
sampling::NodeLogprobs FromWire(const internal::v1::NodeLogprobs& wire);

}  // namespace tandem::messages
