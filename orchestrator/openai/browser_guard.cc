#include "orchestrator/openai/browser_guard.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/flags/values.h"

namespace tandem::orchestrator {
namespace {

constexpr size_t kMaxShown = 256;

// "[::1]:8000", "LocalHost.:8000" and "10.0.0.7" become "::1", "localhost" and "10.0.0.7".
std::string HostOf(absl::string_view authority) {
  if (absl::ConsumePrefix(&authority, "[")) {
    return absl::AsciiStrToLower(authority.substr(0, authority.find(']')));
  }
  absl::string_view host = authority.substr(0, authority.find(':'));
  absl::ConsumeSuffix(&host, ".");
  return absl::AsciiStrToLower(host);
}

bool IsAddress(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool IsLoopback(const std::string& host) {
  return host == "localhost" || absl::EndsWith(host, ".localhost") || host == "::1" ||
         (absl::StartsWith(host, "127.") && IsAddress(host));
}

bool IsName(absl::string_view host) {
  return !host.empty() && std::all_of(host.begin(), host.end(), [](char c) {
    return absl::ascii_islower(static_cast<unsigned char>(c)) ||
           absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
  });
}

}  // namespace

absl::Status BrowserGuard::Validate(absl::string_view flag) const {
  for (const std::string& host : allowed_hosts) {
    if (host == "*" || IsName(host)) continue;
    return flags::BadFlag(flag, host,
                          "must be a host name in lower case, without scheme and port, such as "
                          "llm.example.com, or * for all");
  }
  return absl::OkStatus();
}

bool BrowserGuard::Allows(absl::string_view host) const {
  return std::any_of(allowed_hosts.begin(), allowed_hosts.end(),
                     [&](const std::string& one) { return one == "*" || one == host; });
}

absl::Status BrowserGuard::CheckHost(const http::Request& head) const {
  if (allowed_hosts.empty() && !IsLoopback(listen_host)) return absl::OkStatus();
  const absl::string_view given = head.Value("host");
  const std::string host = HostOf(given);
  if (host.empty() || IsAddress(host) || IsLoopback(host) || host == listen_host || Allows(host)) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      absl::StrCat("Host: ", given.substr(0, kMaxShown),
                   " is not a name of this port: use its address or localhost, or start the "
                   "server with --http-allowed-hosts=",
                   host.substr(0, kMaxShown)));
}

absl::Status BrowserGuard::CheckOrigin(const http::Request& head) const {
  const absl::string_view site = head.Value("sec-fetch-site");
  const absl::string_view origin = head.Value("origin");
  if (site == "same-origin" || site == "none" || (site.empty() && origin.empty())) {
    return absl::OkStatus();
  }
  const size_t scheme = origin.find("://");
  const absl::string_view authority =
      scheme == absl::string_view::npos ? absl::string_view() : origin.substr(scheme + 3);
  const std::string host = HostOf(authority);
  if (IsLoopback(host) || Allows(host)) return absl::OkStatus();
  // A browser that does not tell more than the origin.
  if (site.empty() && !authority.empty() && absl::EqualsIgnoreCase(authority, head.Value("host"))) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat(
      "a web page of another site may not call this port",
      origin.empty() ? "" : absl::StrCat(" (Origin: ", origin.substr(0, kMaxShown), ")"),
      ": start the server with --http-allowed-hosts=HOST of that page, or with --token-file"));
}

absl::Status CheckContentType(const http::Request& head) {
  const std::vector<absl::string_view> types = head.Values("content-type");
  const absl::string_view type = types.empty() ? absl::string_view() : types[0];
  const absl::string_view media = absl::StripAsciiWhitespace(type.substr(0, type.find(';')));
  if (types.size() == 1 && absl::EqualsIgnoreCase(media, "application/json")) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a body needs one header Content-Type: application/json, and this request has ",
      types.empty()      ? "none"
      : types.size() > 1 ? "several"
                         : absl::StrCat("\"", type.substr(0, kMaxShown), "\""),
      ". curl sends another one with -d: add -H 'Content-Type: application/json', or use --json"));
}

}  // namespace tandem::orchestrator
