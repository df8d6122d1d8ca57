// Names to addresses, as the machine resolves them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tandem::orchestrator {

// The addresses of a host, by getaddrinfo: /etc/hosts, DNS, whatever the machine is set up for. A
// LookUp (directory.h): its contract holds. Thread-safe; may take seconds.
absl::StatusOr<std::vector<std::string>> SystemLookUp(const std::string& host);

}  // namespace tandem::orchestrator
