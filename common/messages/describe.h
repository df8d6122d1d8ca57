// The answer of */Describe, the same at both services: the Welcome, and hashes of a range of
// tokens. By them a client finds the first token that differs from its own.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "tandem/v1/describe.pb.h"

namespace tandem::messages {

// INVALID_ARGUMENT: unknown fields, or too long a range. FAILED_PRECONDITION: hashes are asked for,
// and `token_hash` is empty. A range beyond the vocabulary's end is cut there. Thread-safe.
absl::Status FillDescription(const v1::DescribeRequest& request, const v1::Welcome& welcome,
                             const std::function<uint32_t(uint32_t token)>& token_hash,
                             v1::DescribeReply& reply);

}  // namespace tandem::messages
