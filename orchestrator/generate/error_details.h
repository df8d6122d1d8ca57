// What a client's program can read of an error, beside its message for people.
//
// Thread safety: pure functions.
#pragma once

#include <google/protobuf/descriptor.h>

#include "absl/status/status.h"

namespace tandem::orchestrator {

// When to ask again after RESOURCE_EXHAUSTED or UNAVAILABLE, over any front, where nobody knows
// when there is room: a moment that costs little.
inline constexpr int kRetrySeconds = 1;

// Adds BadRequest to INVALID_ARGUMENT where the message begins with the path of a field of
// `request`. Adds RetryInfo to RESOURCE_EXHAUSTED and UNAVAILABLE that have none. Others stay.
absl::Status WithDetails(absl::Status status, const google::protobuf::Descriptor& request);

}  // namespace tandem::orchestrator
