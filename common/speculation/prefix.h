// The hash of a committed prefix, on both sides of the wire (tokens.proto, Prefix.hash).
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace tandem::speculation {

inline constexpr uint64_t kEmptyPrefixHash = 0x7461'6e64'656d'0001;

// Appends one token. Rolling: the hash of n + 1 tokens follows from that of n. Not cryptographic:
// it finds mistakes, not forgers.
constexpr uint64_t ExtendPrefixHash(uint64_t hash, uint32_t token) {
  uint64_t z = hash ^ (static_cast<uint64_t>(token) + 0x9e37'79b9'7f4a'7c15 + (hash << 6));
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11eb;
  return z ^ (z >> 31);
}

constexpr uint64_t PrefixHash(absl::Span<const uint32_t> tokens) {
  uint64_t hash = kEmptyPrefixHash;
  for (uint32_t token : tokens) hash = ExtendPrefixHash(hash, token);
  return hash;
}

}  // namespace tandem::speculation
