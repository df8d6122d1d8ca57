// The committed tokens of one request: prompt and output. A request needs no other state to go on
// elsewhere.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/speculation/prefix.h"

namespace tandem::orchestrator {

// Only grows. Not thread-safe.
class CommittedTokens {
 public:
  explicit CommittedTokens(std::vector<uint32_t> tokens)
      : tokens_(std::move(tokens)), hash_(speculation::PrefixHash(tokens_)) {}

  uint32_t size() const { return static_cast<uint32_t>(tokens_.size()); }
  uint64_t hash() const { return hash_; }  // hash of all tokens
  absl::Span<const uint32_t> all() const { return tokens_; }
  absl::Span<const uint32_t> from(uint32_t begin) const { return all().subspan(begin); }

  void Append(uint32_t token) {
    tokens_.push_back(token);
    hash_ = speculation::ExtendPrefixHash(hash_, token);
  }

  // The hash of the first `size` tokens.
  uint64_t HashOf(uint32_t size) const {
    return size == tokens_.size() ? hash_ : speculation::PrefixHash(all().subspan(0, size));
  }

 private:
  std::vector<uint32_t> tokens_;
  uint64_t hash_;
};

}  // namespace tandem::orchestrator
