// The tokens of one sequence, as penalties and minimum tokens need them: which came, and how often.
//
// A block's draft tokens are appended one by one while its rows are judged, and taken back after
// it: a count never outlives the token that it counts.
//
// Thread safety: none of its own; one sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace tandem::sampling {

class TokenHistory {
 public:
  // The first `prompt_tokens` tokens are prompt, all later ones output.
  explicit TokenHistory(uint32_t prompt_tokens = 0) : prompt_tokens_(prompt_tokens) {}

  void Append(uint32_t token);
  void Append(absl::Span<const uint32_t> tokens);
  void Truncate(size_t size);  // size <= size()

  absl::Span<const uint32_t> tokens() const { return tokens_; }
  size_t size() const { return tokens_.size(); }
  uint32_t prompt_tokens() const { return prompt_tokens_; }
  uint32_t output_tokens() const;  // so far; 0 while the prompt is not complete

  struct Counts {
    uint32_t all = 0;     // in prompt and output; above 0 for a token that is here
    uint32_t output = 0;  // in the output
  };
  // The counts of each distinct token, in no order.
  const absl::flat_hash_map<uint32_t, Counts>& counts() const { return counts_; }

 private:
  uint32_t prompt_tokens_;
  std::vector<uint32_t> tokens_;
  absl::flat_hash_map<uint32_t, Counts> counts_;
};

}  // namespace tandem::sampling
