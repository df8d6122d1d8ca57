// One HTTP request at a time, by libcurl. It follows no redirect: who asks decides where a token
// may go (hub_client.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tandem::client {

struct HttpRequest {
  std::string url;  // of http or https; nothing else is spoken
  bool head = false;
  std::string token;  // goes out as a bearer token; empty: none does
  int64_t from = 0;   // above 0: a Range from this byte to the end
};

struct HttpReply {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case; the last of a name counts
  std::string location;                        // of a redirect, absolute; empty: there is none

  // Empty: it is not there.
  std::string Header(absl::string_view name) const;
};

// Gets the body of a reply with a 2xx status, in pieces. `reply` has status and headers. An error
// ends the request, and is its result. Bodies of other replies are not read.
using HttpBody = std::function<absl::Status(const HttpReply& reply, absl::string_view bytes)>;

// Keeps connections open between requests. Takes proxies from the environment, as curl does
// (HTTPS_PROXY, NO_PROXY), and authorities from SSL_CERT_FILE where that is set.
//
// Thread safety: one thread.
class Http {
 public:
  // A connection that is not made within `patience`, or brings (next to) nothing for
  // so long, is given up.
  explicit Http(absl::Duration patience);
  ~Http();
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  // UNAVAILABLE: no reply, or not the whole of it; another try may help. FAILED_PRECONDITION: the
  // server's certificate is not trusted. INVALID_ARGUMENT: the address is none.
  absl::StatusOr<HttpReply> Send(const HttpRequest& request, const HttpBody& body);

 private:
  void* curl_;  // a CURL
  absl::Duration patience_;
};

// "https://host:443", in lower case: two addresses with the same one reach the same server. Empty:
// not an address of http or https.
std::string Origin(const std::string& url);

}  // namespace tandem::client
