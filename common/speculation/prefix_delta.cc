#include "common/speculation/prefix_delta.h"

namespace tandem::speculation {

v1::Prefix ToWire(const PrefixDelta& prefix) {
  v1::Prefix wire;
  wire.set_keep(prefix.keep);
  wire.mutable_tokens()->Add(prefix.tokens.begin(), prefix.tokens.end());
  wire.set_hash(prefix.hash);
  return wire;
}

PrefixDelta FromWire(const v1::Prefix& prefix) {
  return {prefix.keep(), {prefix.tokens().begin(), prefix.tokens().end()}, prefix.hash()};
}

}  // namespace tandem::speculation
