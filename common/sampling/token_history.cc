#include "common/sampling/token_history.h"

#include "common/base/check.h"

namespace tandem::sampling {

void TokenHistory::Append(uint32_t token) {
  Counts& counts = counts_[token];
  ++counts.all;
  if (tokens_.size() >= prompt_tokens_) ++counts.output;
  tokens_.push_back(token);
}

void TokenHistory::Append(absl::Span<const uint32_t> tokens) {
  for (uint32_t token : tokens) Append(token);
}

void TokenHistory::Truncate(size_t size) {
  TANDEM_CHECK(size <= tokens_.size()) << size << " of " << tokens_.size();
  while (tokens_.size() > size) {
    auto it = counts_.find(tokens_.back());
    tokens_.pop_back();
    if (tokens_.size() >= prompt_tokens_) --it->second.output;
    if (--it->second.all == 0) counts_.erase(it);
  }
}

uint32_t TokenHistory::output_tokens() const {
  return tokens_.size() > prompt_tokens_ ? static_cast<uint32_t>(tokens_.size()) - prompt_tokens_
                                         : 0;
}

}  // namespace tandem::sampling
