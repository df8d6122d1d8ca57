// The log probabilities of a request as a table.
//
// Thread safety: pure function.
#pragma once

#include <string>

#include "client/common/outcome.h"

namespace tandem::client {

// Lists the tokens of the prompt and then of each sample, a line per token, with the alternatives
// beside it, or below it where tokens have texts, most likely first. At most 80 columns wide.
// Returns an empty text when there are no log probabilities.
std::string LogprobTable(const Outcome& outcome);

}  // namespace tandem::client
