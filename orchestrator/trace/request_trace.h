// A request as a span: `generate`, from the call's arrival to its last message, under the client's own span
// if it names one (traceparent). Its samples' rounds hang under it: round_trace.h.
#pragma once

#include "common/telemetry/tracer.h"
#include "orchestrator/request/request_observer.h"

namespace tandem::orchestrator {

// `tracer` outlives all requests and runs on the loop's clock. A request that is not sampled is not
// watched: its rounds cost nothing.
WatchRequest TraceRequests(telemetry::Tracer& tracer);

}  // namespace tandem::orchestrator
