#include "client/pull/http.h"

#include <curl/curl.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/base/version.h"

namespace tandem::client {
namespace {

constexpr long kSilence = 100;               // NOLINT: libcurl's; fewer bytes per second are none
constexpr size_t kMaxHeaders = 64;           // kept of one reply
constexpr size_t kMaxHeaderBytes = 8192;     // of one; signed addresses are long
constexpr size_t kMaxUnreadBytes = 1 << 20;  // of a reply and those before it

struct Transfer {
  HttpReply reply;
  const HttpBody& body;
  absl::Status status;  // of `body`
  size_t unread = 0;    // bytes of headers, and of a body that nobody asked for

  bool HasBody() const { return reply.status >= 200 && reply.status < 300; }
  // Of such bytes: what libcurl is told was taken. Other than `bytes` ends the transfer.
  size_t Skip(size_t bytes) { return (unread += bytes) <= kMaxUnreadBytes ? bytes : 0; }
};

size_t OnHeader(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const absl::string_view line(data, size * count);
  if (absl::StartsWith(line, "HTTP/")) {
    // Also before the reply itself: 100, or that of a proxy.
    transfer.reply = HttpReply();
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
    if (words.size() > 1) (void)absl::SimpleAtoi(words[1], &transfer.reply.status);
    return transfer.Skip(line.size());
  }
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(line, absl::MaxSplits(':', 1));
  if (parts.second.size() > kMaxHeaderBytes || transfer.reply.headers.size() >= kMaxHeaders) {
    return transfer.Skip(line.size());
  }
  transfer.reply.headers[absl::AsciiStrToLower(absl::StripAsciiWhitespace(parts.first))] =
      std::string(absl::StripAsciiWhitespace(parts.second));
  return transfer.Skip(line.size());
}

size_t OnBody(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const size_t bytes = size * count;
  if (!transfer.HasBody()) return transfer.Skip(bytes);
  transfer.status = transfer.body(transfer.reply, absl::string_view(data, bytes));
  return transfer.status.ok() ? bytes : 0;
}

// What libcurl says of the end of a transfer.
absl::Status Ended(CURLcode code, const char* detail, const std::string& url,
                   absl::Duration patience) {
  const std::string what =
      absl::StrCat(Origin(url), ": ", detail[0] != '\0' ? detail : curl_easy_strerror(code));
  switch (code) {
    case CURLE_OK:
      return absl::OkStatus();
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return absl::InvalidArgumentError(absl::StrCat("'", url.substr(0, 200), "': ", what));
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return absl::FailedPreconditionError(
          absl::StrCat(what,
                       "; its certificate is of no authority that this machine trusts: install "
                       "ca-certificates, or name yours in SSL_CERT_FILE"));
    case CURLE_OPERATION_TIMEDOUT:
      return absl::UnavailableError(absl::StrCat(Origin(url), ": nothing came for ",
                                                 absl::FormatDuration(patience),
                                                 " (HF_HUB_DOWNLOAD_TIMEOUT)"));
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
      return absl::UnavailableError(absl::StrCat(
          what, " (check the network; HTTPS_PROXY names a proxy, HF_ENDPOINT a mirror)"));
    default:
      return absl::UnavailableError(what);
  }
}

}  // namespace

std::string HttpReply::Header(absl::string_view name) const {
  const auto found = headers.find(std::string(name));
  return found == headers.end() ? "" : found->second;
}

Http::Http(absl::Duration patience) : patience_(patience) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  TANDEM_CHECK(ready == CURLE_OK);
  curl_ = curl_easy_init();
  TANDEM_CHECK(curl_ != nullptr);
}

Http::~Http() { curl_easy_cleanup(curl_); }

absl::StatusOr<HttpReply> Http::Send(const HttpRequest& request, const HttpBody& body) {
  CURL* const curl = curl_;
  curl_easy_reset(curl);  // keeps connections
  Transfer transfer{{}, body, absl::OkStatus()};
  char detail[CURL_ERROR_SIZE] = "";
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(
      // Sizes and hashes are of the bytes themselves.
      curl_slist_append(nullptr, "Accept-Encoding: identity"), &curl_slist_free_all);
  if (!request.token.empty()) {
    const std::string line = absl::StrCat("Authorization: Bearer ", request.token);
    curl_slist_append(headers.get(), line.c_str());
  }
  const std::string agent = absl::StrCat("tandem/", base::Version());
  const std::string range = absl::StrCat(request.from, "-");
  const auto seconds = static_cast<long>(absl::ToInt64Seconds(patience_));  // NOLINT: libcurl's
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_USERAGENT, agent.c_str());
  curl_easy_setopt(curl, CURLOPT_NOBODY, request.head ? 1L : 0L);
  if (request.from > 0) curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, seconds);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, kSilence);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, seconds);
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 512L * 1024);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, detail);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &OnBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  if (const char* file = std::getenv("SSL_CERT_FILE"); file != nullptr && file[0] != '\0') {
    curl_easy_setopt(curl, CURLOPT_CAINFO, file);
  }
  const CURLcode code = curl_easy_perform(curl);
  if (!transfer.status.ok()) return transfer.status;
  if (transfer.unread > kMaxUnreadBytes) {
    return absl::FailedPreconditionError(
        absl::StrCat(Origin(request.url), ": a reply of status ", transfer.reply.status,
                     " has more than ", kMaxUnreadBytes, " bytes of headers and error text"));
  }
  if (absl::Status status = Ended(code, detail, request.url, patience_); !status.ok()) {
    return status;
  }
  const char* location = nullptr;
  curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &location);
  if (location != nullptr) transfer.reply.location = location;
  return std::move(transfer.reply);
}

std::string Origin(const std::string& url) {
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parsed(curl_url(), &curl_url_cleanup);
  if (curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return "";
  const auto part = [&parsed](CURLUPart which) -> std::string {
    char* text = nullptr;
    if (curl_url_get(parsed.get(), which, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return "";
    std::string result = absl::AsciiStrToLower(text);
    curl_free(text);
    return result;
  };
  const std::string scheme = part(CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") return "";
  return absl::StrCat(scheme, "://", part(CURLUPART_HOST), ":", part(CURLUPART_PORT));
}

}  // namespace tandem::client
