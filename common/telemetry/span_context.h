// The identity of a span: W3C Trace Context (www.w3.org/TR/trace-context), version 00.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tandem::telemetry {

struct SpanContext {
  static constexpr uint8_t kSampled = 1;  // in `flags`

  std::array<uint8_t, 16> trace_id{};  // all zero: there is none
  std::array<uint8_t, 8> span_id{};
  uint8_t flags = 0;
  // The trace's tracestate, as a header; null: there is none. It stays within a process: ToBytes
  // has no place for it.
  std::shared_ptr<const std::string> trace_state;

  bool valid() const { return trace_id != decltype(trace_id){} && span_id != decltype(span_id){}; }
  bool sampled() const { return valid() && (flags & kSampled) != 0; }
  // Whether they are of one span; the trace state does not count.
  bool operator==(const SpanContext& other) const {
    return trace_id == other.trace_id && span_id == other.span_id && flags == other.flags;
  }
};

// What travels in tandem.internal.v1.TraceContext: trace id, span id, flags.
inline constexpr size_t kSpanContextBytes = 25;
std::string ToBytes(const SpanContext& context);
// Nothing when there are not kSpanContextBytes bytes, or an id is zero.
std::optional<SpanContext> FromBytes(absl::string_view bytes);

// The header `traceparent` of a call. Nothing when it is malformed or names no trace. The call then
// begins a trace of its own, as the standard wants it. Later versions are read as far as version 00
// goes.
std::optional<SpanContext> ParseTraceparent(absl::string_view header);

// The headers `tracestate` of a call, joined by commas, for a context that ParseTraceparent gave.
// Null when there is none, or when they are longer than the standard has everybody keep. Members
// that are invalid are found when a span begins; then all are discarded.
inline constexpr size_t kMaxTraceState = 512;
std::shared_ptr<const std::string> ParseTracestate(absl::string_view headers);

// 32 hexadecimal digits.
std::string TraceIdHex(const SpanContext& context);
std::string SpanIdHex(const SpanContext& context);  // 16 of them

}  // namespace tandem::telemetry
