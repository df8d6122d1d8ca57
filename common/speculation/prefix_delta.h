// The committed tokens of a sequence as a difference to what the receiver holds: Prefix of
// tokens.proto as a plain value.
//
// Thread safety: a plain value and pure functions.
#pragma once

#include <cstdint>

#include "common/speculation/token_slice.h"
#include "tandem/internal/v1/tokens.pb.h"

namespace tandem::speculation {

struct PrefixDelta {
  uint32_t keep = 0;  // tokens that the receiver may keep of what it holds
  TokenSlice tokens;  // all committed tokens after these
  uint64_t hash = 0;  // of all keep + tokens.size() committed tokens (prefix.h)
  friend bool operator==(const PrefixDelta&, const PrefixDelta&) = default;
};

internal::v1::Prefix ToWire(const PrefixDelta& prefix);
PrefixDelta FromWire(const internal::v1::Prefix& prefix);

}  // namespace tandem::speculation
