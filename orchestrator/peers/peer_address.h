// Which peers of one kind there are, as names resolve to them.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tandem::orchestrator {

struct PeerAddress {
  std::string address;  // "10.0.0.7:50052", "[::1]:50052": what is connected to; no two are equal
  std::string name;     // of the flag: "tandem-target:50052"; the address itself where it is none
  friend bool operator==(const PeerAddress&, const PeerAddress&) = default;
};

// For messages: "10.0.0.7:50052 (tandem-target:50052)", the address alone where it has no other name.
inline std::string Called(const PeerAddress& peer) {
  return peer.name == peer.address ? peer.address
                                   : absl::StrCat(peer.address, " (", peer.name, ")");
}

// At one moment.
struct PeerList {
  // In the flag's order, those of one name by address.
  std::vector<PeerAddress> peers;
  // Of names that have never resolved to any address yet: why, one each.
  std::vector<std::string> problems;
};

}  // namespace tandem::orchestrator
