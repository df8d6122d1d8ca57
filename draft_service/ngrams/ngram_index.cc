#include "draft_service/ngrams/ngram_index.h"

#include "common/base/check.h"
#include "common/speculation/prefix.h"

namespace tandem::draft_service {

uint64_t NgramIndex::Key(absl::Span<const uint32_t> text) const {
  return speculation::PrefixHash(text.last(n_));
}

void NgramIndex::Appended(absl::Span<const uint32_t> text) {
  if (text.size() >= n_) ends_[Key(text)].push_back(static_cast<uint32_t>(text.size()));
}

void NgramIndex::Removing(absl::Span<const uint32_t> text) {
  if (text.size() < n_) return;
  auto it = ends_.find(Key(text));
  TANDEM_CHECK(it != ends_.end() && it->second.back() == text.size());
  it->second.pop_back();
  if (it->second.empty()) ends_.erase(it);
}

absl::Span<const uint32_t> NgramIndex::Follows(absl::Span<const uint32_t> text) const {
  if (text.size() <= n_) return {};
  const std::vector<uint32_t>& ends = ends_.at(Key(text));
  return absl::MakeConstSpan(ends).first(ends.size() - 1);  // the last one is the text's own end
}

}  // namespace tandem::draft_service
