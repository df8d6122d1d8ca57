// A span's context to and from the wire (tokens.proto, TraceContext).
//
// Thread safety: plain values and pure functions.
#pragma once

#include <optional>

#include "common/messages/refusal.h"
#include "common/telemetry/span_context.h"
#include "tandem/internal/v1/tokens.pb.h"

namespace tandem::messages {

internal::v1::TraceContext ToWire(const telemetry::SpanContext& context);

// For a message that has a context whose length CheckTraceContext has found good. Nothing when it
// names no trace, or one that is not sampled.
std::optional<telemetry::SpanContext> FromWire(const internal::v1::TraceContext& wire);

// INVALID names the field: a context of another length.
std::optional<Refusal> CheckTraceContext(const internal::v1::TraceContext& wire);

}  // namespace tandem::messages
