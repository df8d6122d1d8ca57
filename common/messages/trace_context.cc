#include "common/messages/trace_context.h"

#include "absl/strings/str_cat.h"

namespace tandem::messages {

internal::v1::TraceContext ToWire(const telemetry::SpanContext& context) {
  internal::v1::TraceContext wire;
  wire.set_value(telemetry::ToBytes(context));
  return wire;
}

std::optional<telemetry::SpanContext> FromWire(const internal::v1::TraceContext& wire) {
  std::optional<telemetry::SpanContext> context = telemetry::FromBytes(wire.value());
  if (context.has_value() && !context->sampled()) return std::nullopt;
  return context;
}

std::optional<Refusal> CheckTraceContext(const internal::v1::TraceContext& wire) {
  if (wire.value().size() == telemetry::kSpanContextBytes) return std::nullopt;
  return Invalid("trace.value", absl::StrCat("a trace context has ", telemetry::kSpanContextBytes,
                                             " bytes, not ", wire.value().size()));
}

}  // namespace tandem::messages
