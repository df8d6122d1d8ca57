#include "common/speculation/prefix_delta.h"

namespace tandem::speculation {

internal::v1::Prefix ToWire(const PrefixDelta& prefix) {
  internal::v1::Prefix wire;
  wire.set_keep(prefix.keep);
  wire.mutable_tokens()->Add(prefix.tokens.begin(), prefix.tokens.end());
  wire.set_hash(prefix.hash);
  return wire;
}

PrefixDelta FromWire(const internal::v1::Prefix& prefix) {
  const absl::Span<const uint32_t> tokens(prefix.tokens().data(),
                                          static_cast<size_t>(prefix.tokens_size()));
  return {prefix.keep(), tokens, prefix.hash()};
}

}  // namespace tandem::speculation
