// How an interrupted request is resumed: by a new request that carries the output so far.
//
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/common/outcome.h"

namespace tandem::client {

// The ids that sample `index` resumes with: those that `request` resumed from, and those that came
// since.
std::vector<uint32_t> PrefixIds(const Outcome& outcome, const v1::GenerateRequest& request,
                                size_t index);

// A prefix with more ids than this is not printed; its length is.
inline constexpr size_t kMaxHintedIds = 512;

// The flags with which the command resumes, a line for each sample. Empty for a request that never
// started.
std::string ResumeHint(const Outcome& outcome, const v1::GenerateRequest& request);

}  // namespace tandem::client
