#include "common/telemetry/span_context.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace tandem::telemetry {
namespace {

template <size_t kSize>
std::string Hex(const std::array<uint8_t, kSize>& id) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(id.data()), kSize});
}

// Lower case alone, as the standard has it.
std::optional<std::string> FromHex(absl::string_view digits) {
  const bool good = std::all_of(digits.begin(), digits.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  if (!good) return std::nullopt;
  return absl::HexStringToBytes(digits);
}

}  // namespace

std::string ToBytes(const SpanContext& context) {
  std::string bytes;
  bytes.reserve(kSpanContextBytes);
  bytes.append(context.trace_id.begin(), context.trace_id.end());
  bytes.append(context.span_id.begin(), context.span_id.end());
  bytes.push_back(static_cast<char>(context.flags));
  return bytes;
}

std::optional<SpanContext> FromBytes(absl::string_view bytes) {
  if (bytes.size() != kSpanContextBytes) return std::nullopt;
  SpanContext context;
  std::copy_n(bytes.begin(), 16, context.trace_id.begin());
  std::copy_n(bytes.begin() + 16, 8, context.span_id.begin());
  context.flags = static_cast<uint8_t>(bytes[24]);
  if (!context.valid()) return std::nullopt;
  return context;
}

// version "-" trace-id "-" parent-id "-" flags, in 2, 32, 16 and 2 digits.
std::optional<SpanContext> ParseTraceparent(absl::string_view header) {
  constexpr size_t kLength = 2 + 1 + 32 + 1 + 16 + 1 + 2;
  if (header.size() < kLength) return std::nullopt;
  if (header[2] != '-' || header[35] != '-' || header[52] != '-') return std::nullopt;
  const auto version = FromHex(header.substr(0, 2));
  if (!version.has_value() || *version == "\xff") return std::nullopt;
  if (header.size() > kLength && (*version == std::string(1, '\0') || header[kLength] != '-')) {
    return std::nullopt;
  }
  const auto trace_id = FromHex(header.substr(3, 32));
  const auto span_id = FromHex(header.substr(36, 16));
  const auto flags = FromHex(header.substr(53, 2));
  if (!trace_id.has_value() || !span_id.has_value() || !flags.has_value()) return std::nullopt;
  return FromBytes(*trace_id + *span_id + *flags);
}

std::shared_ptr<const std::string> ParseTracestate(absl::string_view headers) {
  if (headers.empty() || headers.size() > kMaxTraceState) return nullptr;
  return std::make_shared<const std::string>(headers);
}

std::string TraceIdHex(const SpanContext& context) { return Hex(context.trace_id); }
std::string SpanIdHex(const SpanContext& context) { return Hex(context.span_id); }

}  // namespace tandem::telemetry
