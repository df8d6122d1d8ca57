#include "orchestrator/trace/server_address.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "common/telemetry/attributes.h"

namespace tandem::orchestrator {
namespace {

constexpr size_t kMaxBytes = 255;  // of a name in DNS

bool CanBeHost(absl::string_view host) {
  return !host.empty() && host.size() <= kMaxBytes &&
         std::all_of(host.begin(), host.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' ||
                  c == '_' || c == ':';
         });
}

}  // namespace

void SetServer(absl::string_view server, telemetry::Span& span) {
  absl::string_view host = server;
  uint32_t port = 0;
  const size_t colon = server.rfind(':');
  // The colons of an IPv6 address stand in brackets.
  const bool has_port = colon != server.npos && server.find(']', colon) == server.npos;
  if (has_port) {
    host = server.substr(0, colon);
    if (!absl::SimpleAtoi(server.substr(colon + 1), &port) || port == 0 || port > 65535) return;
  }
  if (absl::ConsumePrefix(&host, "[") && !absl::ConsumeSuffix(&host, "]")) return;
  if (!CanBeHost(host)) return;
  span.Set(telemetry::kServerAddress, host);
  if (has_port) span.Set(telemetry::kServerPort, int64_t{port});
}

}  // namespace tandem::orchestrator
