// Whether a process can listen where it is told to. It is asked before models are loaded, which
// takes minutes.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tandem::transport {

struct ListenAddress {
  std::string flag;     // "--listen", for the error
  std::string address;  // HOST:PORT; port 0: any free one
};

// Listens on all the addresses at the same time and lets them go again. So it finds a port that is
// taken and a port that is named twice. A connection that comes meanwhile is reset. Another process
// may take a port afterwards; then ServerHost::Start fails.
//
// INVALID_ARGUMENT: an address that is not HOST:PORT. UNAVAILABLE names the flag, the address, what
// is wrong and what would be right. Thread-safe.
absl::Status CheckListenAddresses(const std::vector<ListenAddress>& addresses);

}  // namespace tandem::transport
