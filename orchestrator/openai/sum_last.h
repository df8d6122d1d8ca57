// The records of several requests as one.
//
// Thread safety: a pure function.
#pragma once

#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// Adds what counts in `last` (usage, acceptance, timing) to `sum`: numbers are added up, of times
// to an event the longest stands, and of an estimate the last one. Its samples are left out.
void AddLast(const v1::Last& last, v1::Last& sum);

}  // namespace tandem::orchestrator
