#include "common/speculation/held_prefix.h"

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace tandem::speculation {

PrefixMatch HeldPrefix::Match(const internal::v1::Prefix& prefix) const {
  PrefixMatch match;
  if (prefix.keep() > size()) {
    match.refusal = messages::NeedPrefix(
        size(), absl::StrCat("keep is ", prefix.keep(), ", but only ", size(), " tokens are held"));
    return match;
  }
  uint64_t hash = hashes_[prefix.keep()];
  for (uint32_t token : prefix.tokens()) hash = ExtendPrefixHash(hash, token);
  if (hash != prefix.hash()) {
    match.refusal = messages::NeedPrefix(
        0, absl::StrCat("prefix.hash is ", prefix.hash(), ", but the ", prefix.keep(),
                        " tokens kept and the ", prefix.tokens_size(), " sent hash to ", hash));
    return match;
  }
  match.committed = prefix.keep() + static_cast<uint32_t>(prefix.tokens_size());
  match.standing = prefix.keep();
  for (uint32_t token : prefix.tokens()) {
    if (match.standing == size() || tokens_[match.standing] != token) break;
    ++match.standing;
  }
  return match;
}

internal::v1::Prefix HeldPrefix::Extended(uint32_t keep, uint32_t token) const {
  internal::v1::Prefix prefix;
  prefix.set_keep(keep);
  prefix.add_tokens(token);
  prefix.set_hash(ExtendPrefixHash(hashes_[keep], token));
  return prefix;
}

void HeldPrefix::Truncate(uint32_t size) {
  TANDEM_CHECK(size <= tokens_.size()) << size << " of " << tokens_.size();
  tokens_.resize(size);
  hashes_.resize(size + size_t{1});
}

void HeldPrefix::Append(absl::Span<const uint32_t> tokens) {
  for (uint32_t token : tokens) {
    tokens_.push_back(token);
    hashes_.push_back(ExtendPrefixHash(hashes_.back(), token));
  }
}

}  // namespace tandem::speculation
