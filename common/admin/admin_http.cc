#include "common/admin/admin_http.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tandem::admin {
namespace {

constexpr absl::string_view kMetricsType = "text/plain; version=0.0.4; charset=utf-8";
constexpr absl::string_view kTextType = "text/plain; charset=utf-8";
constexpr char kLineEnd[] = "\r\n";
constexpr char kHeadEnd[] = "\r\n\r\n";

// `with_body` false: HEAD, whose answer says how long the body would be.
std::string Answer(absl::string_view status, absl::string_view type, absl::string_view body,
                   bool with_body = true, absl::string_view more_headers = "") {
  return absl::StrCat("HTTP/1.1 ", status, "\r\nContent-Type: ", type,
                      "\r\nContent-Length: ", body.size(), kLineEnd, more_headers,
                      "Connection: close\r\n\r\n", with_body ? body : "");
}

std::string Malformed(absl::string_view what) {
  return Answer("400 Bad Request", kTextType, absl::StrCat("not an HTTP request: ", what, "\n"));
}

// name ":" value, with no white space before the colon and none at the line's start (RFC 9112).
bool IsHeader(absl::string_view line) {
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos || colon == 0) return false;
  const absl::string_view name = line.substr(0, colon);
  return std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

}  // namespace

std::optional<std::string> HttpAnswer(absl::string_view received,
                                      const std::function<std::string()>& metrics) {
  const size_t head_end = received.find(kHeadEnd);
  if (std::min(head_end, received.size()) > kMaxHttpHeadBytes) {
    return Answer(
        "431 Request Header Fields Too Large", kTextType,
        absl::StrCat("a request's head has at most ", kMaxHttpHeadBytes, " bytes here\n"));
  }
  if (head_end == absl::string_view::npos) return std::nullopt;
  const std::vector<absl::string_view> lines =
      absl::StrSplit(received.substr(0, head_end), kLineEnd);
  const std::vector<absl::string_view> request = absl::StrSplit(lines[0], ' ');
  if (request.size() != 3 || request[0].empty() || request[1].empty()) {
    return Malformed("its first line is not METHOD TARGET VERSION");
  }
  if (!absl::StartsWith(request[2], "HTTP/")) return Malformed("its first line names no version");
  if (request[2] != "HTTP/1.1" && request[2] != "HTTP/1.0") {
    return Answer("505 HTTP Version Not Supported", kTextType,
                  "supported are HTTP/1.1, and HTTP/2 for gRPC\n");
  }
  if (!std::all_of(lines.begin() + 1, lines.end(), IsHeader)) {
    return Malformed("a header is not NAME: VALUE");
  }
  const absl::string_view path = request[1].substr(0, request[1].find('?'));
  const bool head = request[0] == "HEAD";
  if (path != "/metrics") {
    return Answer("404 Not Found", kTextType,
                  "this port serves GET /metrics, and gRPC health checks (grpc.health.v1.Health)\n",
                  !head);
  }
  if (!head && request[0] != "GET") {
    return Answer("405 Method Not Allowed", kTextType, "only GET and HEAD are supported\n", true,
                  "Allow: GET, HEAD\r\n");
  }
  if (metrics == nullptr) {
    return Answer("404 Not Found", kTextType, "this process has no metrics\n", !head);
  }
  return Answer("200 OK", kMetricsType, metrics(), !head);
}

}  // namespace tandem::admin
