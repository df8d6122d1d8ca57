// How a request that was interrupted goes on: a new one with the output that is there already.
//
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/common/outcome.h"

namespace tandem::client {

// The ids to resume sample `index` with: what `request` resumed from, and what came since.
std::vector<uint32_t> PrefixIds(const Outcome& outcome, const v1::GenerateRequest& request,
                                size_t index);

// Prefixes longer than this are not printed, but counted.
inline constexpr size_t kMaxHintedIds = 512;

// The flags to repeat the command with, a line a sample, for people. Empty for a request that never
// started.
std::string ResumeHint(const Outcome& outcome, const v1::GenerateRequest& request);

}  // namespace tandem::client
