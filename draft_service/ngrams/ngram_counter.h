// Counts the tokens and the pairs of neighbours in a stream of tokens, in bounded memory.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace tandem::draft_service {

class NgramCounter {
 public:
  // Tokens at and above `vocabulary_size` part a text and are not counted. At most `max_bigrams`
  // (at least 1) pairs are held.
  NgramCounter(uint32_t vocabulary_size, size_t max_bigrams);

  // The next tokens of the text.
  void Add(absl::Span<const uint32_t> tokens);

  uint64_t tokens() const { return tokens_; }
  const std::vector<uint64_t>& unigrams() const { return unigrams_; }  // by token
  // Pairs that were dropped for others count no longer: where there is no room, the rarest go
  // first, and one that comes again begins anew (Manku and Motwani, "Approximate frequency counts
  // over data streams", VLDB 2002).
  struct Bigram {
    uint32_t first, second;
    uint64_t count;
  };
  std::vector<Bigram> Bigrams() const;  // in no order
  uint64_t dropped() const { return dropped_; }

 private:
  void MakeRoom();

  const size_t max_bigrams_;
  uint64_t tokens_ = 0, dropped_ = 0;
  std::vector<uint64_t> unigrams_;
  absl::flat_hash_map<uint64_t, uint64_t> bigrams_;
  std::optional<uint32_t> last_;
};

}  // namespace tandem::draft_service
