// Resolves names as the machine does.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tandem::orchestrator {

// The addresses of a host by getaddrinfo: from /etc/hosts, DNS, or what else the machine is set up
// for. It is a LookUp (directory.h) and fulfils its contract. Thread-safe. May take seconds.
absl::StatusOr<std::vector<std::string>> SystemLookUp(const std::string& host);

}  // namespace tandem::orchestrator
