// The log probabilities of a request, for people.
//
// Thread safety: pure function.
#pragma once

#include <string>

#include "client/common/outcome.h"

namespace tandem::client {

// Log probabilities token by token, of the prompt, then of each sample; alternatives beside them,
// most likely first. Empty when there are none. At most 80 columns.
std::string LogprobTable(const Outcome& outcome);

}  // namespace tandem::client
