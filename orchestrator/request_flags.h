// The flags of requests and their rounds, which tandem-orchestrator and `tandem serve` share.
#pragma once

#include "common/flags/flag_set.h"
#include "orchestrator/options.h"

namespace tandem::orchestrator {

// In groups of their own. What it sets is checked by Options::Validate. `options` outlives `flags`.
void AddRequestFlags(Options& options, flags::FlagSet& flags);

}  // namespace tandem::orchestrator
