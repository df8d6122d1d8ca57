// The log line of each request at its end, refused requests included.
//
//   request id=5f… trace=4b… status=OK finish=stop prompt_tokens=12 output_tokens=64 …
//   total_ms=210.5 …
//   request id="" trace="" status=INVALID_ARGUMENT total_ms=0.1 message="max_tokens is #; …"
//
// A line never holds text or tokens of a prompt or an output.
#pragma once

#include "absl/strings/string_view.h"
#include "common/base/log_fields.h"
#include "orchestrator/request/request_observer.h"

namespace tandem::orchestrator {

// For GenerateParts::watchers. The line is a warning if the request failed and its client is not
// the cause.
WatchRequest LogRequests();

// The fields of the line. Sums are over all samples. Stages, as in generation.proto, are sums over
// decided rounds. `request_id`: of a request that was refused, where its client gave one.
base::LogFields RequestLine(const RequestEnd& end, absl::string_view request_id = "");

}  // namespace tandem::orchestrator
