#include "common/http/reply.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tandem::http {

absl::string_view Reason(int code) {
  switch (code) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Error";
  }
}

std::string HeadText(const Response& response, absl::string_view framing, bool keep_alive) {
  std::string text = absl::StrCat("HTTP/1.1 ", response.code, " ", Reason(response.code), "\r\n",
                                  "Content-Type: ", response.type, "\r\n", framing);
  for (const Header& header : response.headers) {
    absl::StrAppend(&text, header.name, ": ", header.value, "\r\n");
  }
  if (!keep_alive) absl::StrAppend(&text, "Connection: close\r\n");
  absl::StrAppend(&text, "\r\n");
  return text;
}

std::string ChunkText(absl::string_view piece) {
  if (piece.empty()) return {};
  return absl::StrCat(absl::Hex(piece.size()), "\r\n", piece, "\r\n");
}

}  // namespace tandem::http
