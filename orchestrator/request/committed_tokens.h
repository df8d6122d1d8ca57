// The committed tokens of one text: prompt and output. A sample needs no other state to go on
// elsewhere.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/speculation/prefix.h"
#include "common/speculation/token_slice.h"

namespace tandem::orchestrator {

// A request's prompt, which all of its samples share: its tokens and their hash, which is computed
// once. A plain value. A copy copies no token.
struct SharedPrompt {
  explicit SharedPrompt(speculation::TokenSlice::Text text)
      : tokens(std::move(text)), hash(speculation::PrefixHash(*tokens)) {}

  speculation::TokenSlice::Text tokens;  // not null
  uint64_t hash;                         // of all tokens
};

// Only grows. The prompt is shared; the output is the text's own. Not thread-safe.
class CommittedTokens {
 public:
  explicit CommittedTokens(SharedPrompt prompt) : prompt_(std::move(prompt)), hash_(prompt_.hash) {}
  explicit CommittedTokens(std::vector<uint32_t> prompt)
      : CommittedTokens(
            SharedPrompt(std::make_shared<const std::vector<uint32_t>>(std::move(prompt)))) {}

  uint32_t size() const { return prompt_size() + static_cast<uint32_t>(output_.size()); }
  uint64_t hash() const { return hash_; }  // hash of all tokens

  // The tokens from `begin` to before `end`, at most size(). A slice of the prompt alone shares it
  // and copies nothing.
  speculation::TokenSlice Slice(uint32_t begin, uint32_t end) const {
    TANDEM_CHECK(begin <= end && end <= size());
    if (begin >= prompt_size()) return Output().subspan(begin - prompt_size(), end - begin);
    if (end <= prompt_size()) return {prompt_.tokens, begin, end - begin};
    std::vector<uint32_t> both(prompt_.tokens->begin() + begin, prompt_.tokens->end());
    both.insert(both.end(), output_.begin(), output_.begin() + (end - prompt_size()));
    return both;
  }

  void Append(uint32_t token) {
    output_.push_back(token);
    hash_ = speculation::ExtendPrefixHash(hash_, token);
  }

  // The hash of the first `size` tokens.
  uint64_t HashOf(uint32_t size) const {
    if (size == this->size()) return hash_;
    if (size < prompt_size()) {
      return speculation::PrefixHash(absl::MakeConstSpan(*prompt_.tokens).subspan(0, size));
    }
    uint64_t hash = prompt_.hash;
    for (uint32_t token : Output().subspan(0, size - prompt_size())) {
      hash = speculation::ExtendPrefixHash(hash, token);
    }
    return hash;
  }

 private:
  uint32_t prompt_size() const { return static_cast<uint32_t>(prompt_.tokens->size()); }
  absl::Span<const uint32_t> Output() const { return output_; }

  const SharedPrompt prompt_;
  std::vector<uint32_t> output_;
  uint64_t hash_;
};

}  // namespace tandem::orchestrator
