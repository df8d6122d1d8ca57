// The tokens that a receiver holds of a sequence, and how a Prefix message (tokens.proto) is
// matched against them. Target and draft keep one per sequence.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "common/messages/refusal.h"
#include "common/speculation/prefix.h"

namespace tandem::speculation {

struct PrefixMatch {
  std::optional<messages::Refusal> refusal;  // NEED_PREFIX; then the rest means nothing
  uint32_t committed = 0;                    // keep + size(tokens)
  uint32_t standing = 0;  // of these, the first so many are held already; at least keep
};

class HeldPrefix {
 public:
  // Changes nothing. NEED_PREFIX{size()} when keep is beyond what is held, NEED_PREFIX{0} when the
  // hash of all committed tokens is not that of keep held ones and `prefix.tokens`.
  PrefixMatch Match(const internal::v1::Prefix& prefix) const;

  // The prefix that keeps the first `keep` tokens, at most all, and appends one.
  internal::v1::Prefix Extended(uint32_t keep, uint32_t token) const;

  void Truncate(uint32_t size);  // size <= size()
  void Append(absl::Span<const uint32_t> tokens);

  uint32_t size() const { return static_cast<uint32_t>(tokens_.size()); }
  absl::Span<const uint32_t> tokens() const { return tokens_; }

 private:
  std::vector<uint32_t> tokens_;
  std::vector<uint64_t> hashes_ = {
      kEmptyPrefixHash};  // [i]: of the first i tokens; size() + 1 of them
};

}  // namespace tandem::speculation
