#include "orchestrator/peers/system_look_up.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"

namespace tandem::orchestrator {
namespace {

absl::Status Failed(const std::string& host, int error, int system_error) {
  const std::string message =
      absl::StrCat("cannot look up ", host, ": ",
                   error == EAI_SYSTEM ? strerrordesc_np(system_error) : gai_strerror(error));
  switch (error) {
    case EAI_NONAME:
    case EAI_NODATA:
    case EAI_ADDRFAMILY:
      return absl::NotFoundError(message);
    default:
      return absl::UnavailableError(message);
  }
}

}  // namespace

absl::StatusOr<std::vector<std::string>> SystemLookUp(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;  // each address once, not once a protocol
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) return Failed(host, error, errno);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> freed(found, &freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    // The text has the zone that a link-local address needs.
    std::array<char, NI_MAXHOST> text{};
    const int failed = getnameinfo(entry->ai_addr, entry->ai_addrlen, text.data(), text.size(),
                                   nullptr, 0, NI_NUMERICHOST);
    if (failed != 0) return Failed(host, failed, errno);
    addresses.emplace_back(text.data());
  }
  return addresses;
}

}  // namespace tandem::orchestrator
