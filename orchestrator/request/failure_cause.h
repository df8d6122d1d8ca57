// The side that must act on a request that did not end OK. Metrics and the log take it from here;
// alerts and dashboards from the label `cause` of tandem:request_failure_total.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace tandem::orchestrator {

enum class FailureCause : uint8_t {
  kClient,  // it withdrew the request, did not read, or sent one that cannot be served
  kLoad,    // more was asked than there is room or time for: capacity, or the client's own deadline
  kServer,  // this orchestrator or its peers
};

// Pure. `code` is not kOk. A code that no case names is the server's.
FailureCause CauseOf(absl::StatusCode code);

const char* Name(FailureCause cause);  // "client", "load", "server"

}  // namespace tandem::orchestrator
