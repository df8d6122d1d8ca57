// Traces a request as the span `generate`, from the call's arrival to its last message. Its parent
// is the client's span if the call names one (traceparent). The rounds of its samples are its
// children (round_trace.h). Beside our attributes it has those of gen_ai, and those of the way that
// the call came, rpc or http.
#pragma once

#include <string>

#include "common/telemetry/tracer.h"
#include "orchestrator/request/request_observer.h"

namespace tandem::orchestrator {

// `tracer` outlives all requests and runs on the loop's clock. A request that is not sampled is not
// watched, so its rounds cost nothing. `model` is what clients call the model.
WatchRequest TraceRequests(telemetry::Tracer& tracer, std::string model = "tandem");

}  // namespace tandem::orchestrator
