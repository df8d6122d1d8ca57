// Keeps web pages of strangers from a port that asks for no token.
//
// A page of any site can make its visitor's browser send requests to a port of the visitor's
// machine or network. With DNS rebinding (a name of the page's own that suddenly resolves to
// 127.0.0.1) it also reads the answers. The header Host tells such a name, and Origin and
// Sec-Fetch-Site tell whose page it is. Pages cannot choose what browsers put there. Where a token
// is required none of this matters: a page has none. docs/adr/2026-11-28-web-pages.md says why the
// rules are as they are.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/http/request.h"

namespace tandem::orchestrator {

// Thread safety: plain values.
struct BrowserGuard {
  // The host of the address that the port listens on, as the flag has it.
  std::string listen_host;
  // Names that the port may be called by and whose pages may call it, in lower case and without a
  // port; "*": all.
  std::vector<std::string> allowed_hosts;

  // INVALID_ARGUMENT names the first of `allowed_hosts` that is not a name. `flag`: for the error.
  absl::Status Validate(absl::string_view flag) const;

  // PERMISSION_DENIED: a name that nobody gave to this port. Addresses and loopback names always
  // pass. Other names are refused only where the port listens on a loopback address or
  // allowed_hosts has names: elsewhere nobody knows by which names a port is reached.
  absl::Status CheckHost(const http::Request& head) const;
  // PERMISSION_DENIED: a page of another site sends this. Ask before a request that does something;
  // what a GET answers is kept from other sites by the browser.
  absl::Status CheckOrigin(const http::Request& head) const;

 private:
  bool Allows(absl::string_view host) const;
};

// INVALID_ARGUMENT if a body's Content-Type is not application/json. It says what would be right.
absl::Status CheckContentType(const http::Request& head);

}  // namespace tandem::orchestrator
