// Texts that sequences wrote before, by scope, and what followed their n-grams. Bounded: where
// there is no room for a new text, the oldest go.
//
// A text is found again in its own scope alone. The index is by hash, but every match is compared,
// with its scope.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tandem::draft_service {

class RecalledTexts {
 public:
  // Lengths of a match, the longest first.
  static constexpr std::array<size_t, 2> kMatches = {6, 3};

  // The random numbers that a text was drawn with.
  struct Noise {
    uint64_t seed;
    uint32_t sample_index;
    bool operator==(const Noise&) const = default;
  };

  explicit RecalledTexts(size_t max_tokens) : max_tokens_(max_tokens) {}  // of all texts together

  // Of a text that is longer than all room, its end is kept. `noise`: absent where none was used.
  void Add(absl::string_view scope, absl::Span<const uint32_t> tokens, std::optional<Noise> noise);

  // What followed the longest match of the text's last tokens, to the end of that text; of equals
  // the latest. Empty: none matches. Texts that were drawn with the noise `without` do not count.
  // Valid until the next Add.
  absl::Span<const uint32_t> After(absl::string_view scope, absl::Span<const uint32_t> text,
                                   std::optional<Noise> without) const;

  size_t tokens() const { return tokens_; }  // held
  size_t index_entries() const { return places_.size(); }

 private:
  struct Text {
    uint64_t number;
    std::string scope;
    std::vector<uint32_t> tokens;
    std::optional<Noise> noise;
  };
  struct Place {
    uint64_t text;      // its number
    uint32_t position;  // that follows the n-gram
  };

  static uint64_t Key(absl::string_view scope, absl::Span<const uint32_t> ngram);
  void DropOldest();

  const size_t max_tokens_;
  size_t tokens_ = 0;
  uint64_t next_number_ = 0;
  std::deque<Text> texts_;                       // by number, which ascend by one
  absl::flat_hash_map<uint64_t, Place> places_;  // the latest of each key
};

}  // namespace tandem::draft_service
