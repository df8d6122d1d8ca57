// Addresses in flags: HOST:PORT, or a comma list of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem::base {

struct Address {
  std::string host;  // a name or an IPv4 address; an IPv6 address without its brackets
  uint16_t port = 0;

  std::string ToString() const;  // what gRPC takes: "localhost:50051", "[::1]:50051"

  friend bool operator==(const Address& a, const Address& b) {
    return a.host == b.host && a.port == b.port;
  }
};

// Whether port 0 ("any free port") makes sense: to listen, not to connect.
enum class AddressUse { kConnect, kListen };

// INVALID_ARGUMENT naming `flag`, the value, what is wrong, and the right form.
absl::StatusOr<Address> ParseAddress(absl::string_view flag, absl::string_view text,
                                     AddressUse use = AddressUse::kConnect);

// At least one address; none twice. White space around an address is allowed.
absl::StatusOr<std::vector<Address>> ParseAddressList(absl::string_view flag,
                                                      absl::string_view text,
                                                      AddressUse use = AddressUse::kConnect);

}  // namespace tandem::base
