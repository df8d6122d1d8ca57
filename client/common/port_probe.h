// Tells an address where nobody listens from one where somebody does not speak as we do.
#pragma once

#include <string>

#include "absl/time/time.h"

namespace tandem::client {

// Whether a TCP connection to `address` (HOST:PORT) is taken within `patience`. It says nothing and
// is closed at once. False also for what is not an address. Thread-safe.
bool SomebodyListens(const std::string& address, absl::Duration patience = absl::Seconds(1));

}  // namespace tandem::client
