#include "common/base/address.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"

namespace tandem::base {
namespace {

absl::Status Wrong(absl::string_view flag, absl::string_view text, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      flag, ": '", text, "' ", what,
      "; an address is HOST:PORT, like localhost:50051 or 10.0.0.7:50051 or [::1]:50051"));
}

bool IsHostName(absl::string_view host) {
  return std::all_of(host.begin(), host.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_';
  });
}

bool IsIpv6(absl::string_view host) {
  return host.find(':') != absl::string_view::npos &&
         std::all_of(host.begin(), host.end(), [](char c) {
           // %: a zone, as in fe80::1%eth0.
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == ':' || c == '.' ||
                  c == '%';
         });
}

}  // namespace

std::string Address::ToString() const {
  if (host.find(':') != std::string::npos) return absl::StrCat("[", host, "]:", port);
  return absl::StrCat(host, ":", port);
}

absl::StatusOr<Address> ParseAddress(absl::string_view flag, absl::string_view text,
                                     AddressUse use) {
  if (text.empty()) return Wrong(flag, text, "is empty");
  absl::string_view host, port;
  bool bracketed = text[0] == '[';
  if (bracketed) {
    size_t end = text.find(']');
    if (end == absl::string_view::npos) return Wrong(flag, text, "lacks a ']'");
    host = text.substr(1, end - 1);
    port = text.substr(end + 1);
    if (!IsIpv6(host)) return Wrong(flag, text, "has no IPv6 address between its brackets");
    if (port.empty() || port[0] != ':') return Wrong(flag, text, "has no port");
    port.remove_prefix(1);
  } else {
    size_t colon = text.find(':');
    if (colon == absl::string_view::npos) return Wrong(flag, text, "has no port");
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (port.find(':') != absl::string_view::npos) {
      return Wrong(flag, text, "has more than one ':' (an IPv6 address needs brackets)");
    }
    if (host.empty()) return Wrong(flag, text, "has no host");
    if (!IsHostName(host))
      return Wrong(flag, text, "has a host with other characters than a name's");
  }
  if (port.empty()) return Wrong(flag, text, "has no port");
  uint32_t number = 0;
  bool digits = std::all_of(port.begin(), port.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
  if (!digits || !absl::SimpleAtoi(port, &number) || number > 65535) {
    return Wrong(flag, text, "has a port that is not a number from 1 to 65535");
  }
  if (number == 0 && use == AddressUse::kConnect) {
    return Wrong(flag, text, "has port 0, to which nothing can connect");
  }
  return Address{std::string(host), static_cast<uint16_t>(number)};
}

absl::StatusOr<std::vector<Address>> ParseAddressList(absl::string_view flag,
                                                      absl::string_view text, AddressUse use) {
  std::vector<Address> addresses;
  for (absl::string_view item : absl::StrSplit(text, ',')) {
    TANDEM_ASSIGN_OR_RETURN(Address address,
                            ParseAddress(flag, absl::StripAsciiWhitespace(item), use));
    if (std::find(addresses.begin(), addresses.end(), address) != addresses.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, ": '", address.ToString(), "' is in the list twice"));
    }
    addresses.push_back(std::move(address));
  }
  return addresses;
}

}  // namespace tandem::base
