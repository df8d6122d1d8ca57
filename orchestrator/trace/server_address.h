// Where a span's request goes, by OpenTelemetry's conventions: server.address and server.port.
#pragma once

#include "absl/strings/string_view.h"
#include "common/telemetry/tracer.h"

namespace tandem::orchestrator {

// `server` is HOST:PORT or HOST, perhaps as a client wrote it. What cannot be an address is left
// out: spans take no bytes that are not text, and no long ones.
void SetServer(absl::string_view server, telemetry::Span& span);

}  // namespace tandem::orchestrator
