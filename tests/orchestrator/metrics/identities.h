// What holds between the orchestrator's metrics in every scrape.
#pragma once

#include <string>
#include <vector>

#include "tests/support/scrape.h"

namespace tandem::orchestrator {

// The broken ones, with their numbers; none: all hold. A metric that is not there is a CHECK.
std::vector<std::string> BrokenIdentities(const testing::Scrape& scrape);

}  // namespace tandem::orchestrator
