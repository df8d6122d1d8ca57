// The log's line of each request, at its end; refused ones too.
//
//   request id=5f… trace=4b… status=OK finish=stop prompt_tokens=12 output_tokens=64 … total_ms=210.5 …
//   request id="" trace="" status=INVALID_ARGUMENT total_ms=0.1 message="max_tokens is #; …"
//
// Neither text nor tokens of a prompt or an output are ever in it.
#pragma once

#include "common/base/log_fields.h"
#include "orchestrator/request/request_observer.h"

namespace tandem::orchestrator {

// For GenerateParts::watchers. A warning where the request failed by no fault or wish of its client.
WatchRequest LogRequests();

// The line. Sums are over all samples; stages, as in generation.proto, are of decided rounds.
base::LogFields RequestLine(const RequestEnd& end);

}  // namespace tandem::orchestrator
