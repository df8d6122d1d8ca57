// Which tokens follow a token, by a table that was made before the text: counted in a corpus
// (corpus_ngrams.h) or asked from a model (derived_ngrams.h).
//
// Thread safety: immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/sampling/sparse.h"

namespace tandem::draft_service {

struct Successor {
  uint32_t token;
  uint32_t weight;  // its probability times a factor that all of one span have; at least 1
};

class SuccessorTable {
 public:
  static constexpr size_t kMaxSuccessors = sampling::kMaxSparseEntries;

  virtual ~SuccessorTable() = default;

  // What follows `token`, any id: at most kMaxSuccessors, distinct, by falling weight, ties to the
  // lower id. Empty: the table knows nothing. Valid while the table lives.
  virtual absl::Span<const Successor> After(uint32_t token) const = 0;

  // What follows successor `rank` of After(token), likeliest first as a chain; may be empty.
  virtual absl::Span<const uint32_t> Continuation(uint32_t /*token*/, size_t /*rank*/) const {
    return {};
  }
};

// A table that says the same after all tokens.
class UnigramSuccessors final : public SuccessorTable {
 public:
  explicit UnigramSuccessors(std::vector<Successor> commonest) : commonest_(std::move(commonest)) {}
  absl::Span<const Successor> After(uint32_t /*token*/) const override { return commonest_; }

 private:
  const std::vector<Successor> commonest_;
};

}  // namespace tandem::draft_service
