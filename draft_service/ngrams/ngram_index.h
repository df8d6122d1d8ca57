// Where each n-gram of a text ends, for a text that grows and shrinks at its end. Adding or
// removing a token takes O(1).
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace tandem::draft_service {

class NgramIndex {
 public:
  explicit NgramIndex(size_t n) : n_(n) {}  // n at least 1

  size_t n() const { return n_; }

  // `text` is the whole text. Its last token was just added, or is about to be removed.
  void Appended(absl::Span<const uint32_t> text);
  void Removing(absl::Span<const uint32_t> text);

  // The positions that follow the n-grams with the key of the text's last n tokens, ascending,
  // without the one at the text's own end. Almost always these are the same n-gram: check with
  // SameAsLast. Valid until the text changes.
  absl::Span<const uint32_t> Follows(absl::Span<const uint32_t> text) const;
  // Whether the n tokens before `position` are the text's last n.
  bool SameAsLast(absl::Span<const uint32_t> text, uint32_t position) const {
    return text.subspan(position - n_, n_) == text.last(n_);
  }

 private:
  uint64_t Key(absl::Span<const uint32_t> text) const;

  size_t n_;
  absl::flat_hash_map<uint64_t, std::vector<uint32_t>> ends_;  // ascending
};

}  // namespace tandem::draft_service
