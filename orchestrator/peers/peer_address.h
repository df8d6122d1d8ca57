// The peers of one kind, as names resolve to them.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tandem::orchestrator {

struct PeerAddress {
  std::string address;  // "10.0.0.7:50052", "[::1]:50052"; unique in a list
  std::string name;     // the flag's entry: "tandem-target:50052" or an address
  friend bool operator==(const PeerAddress&, const PeerAddress&) = default;
};

// The peer's name in messages: "10.0.0.7:50052 (tandem-target:50052)", or the address alone if it
// has no other name.
inline std::string Called(const PeerAddress& peer) {
  return peer.name == peer.address ? peer.address
                                   : absl::StrCat(peer.address, " (", peer.name, ")");
}

// All peers at one moment.
struct PeerList {
  // In the flag's order; those of one name are ordered by address.
  std::vector<PeerAddress> peers;
  // One message for each name that has never resolved to an address. It says why.
  std::vector<std::string> problems;
};

}  // namespace tandem::orchestrator
