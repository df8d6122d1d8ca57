#include "draft_service/ngrams/recalled_texts.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "common/base/check.h"

namespace tandem::draft_service {

uint64_t RecalledTexts::Key(absl::string_view scope, absl::Span<const uint32_t> ngram) {
  return absl::HashOf(scope, ngram);
}

void RecalledTexts::Add(absl::string_view scope, absl::Span<const uint32_t> tokens,
                        std::optional<Noise> noise) {
  tokens = tokens.last(std::min(tokens.size(), max_tokens_));
  if (tokens.size() <= kMatches.back()) return;  // nothing could be found in it
  while (tokens_ + tokens.size() > max_tokens_) DropOldest();
  const uint64_t number = next_number_++;
  texts_.push_back({number, std::string(scope), {tokens.begin(), tokens.end()}, noise});
  tokens_ += tokens.size();
  for (size_t n : kMatches) {
    for (size_t end = n; end < tokens.size(); ++end) {
      places_[Key(scope, tokens.subspan(end - n, n))] = {number, static_cast<uint32_t>(end)};
    }
  }
}

void RecalledTexts::DropOldest() {
  TANDEM_CHECK(!texts_.empty());
  const Text text = std::move(texts_.front());
  texts_.pop_front();
  tokens_ -= text.tokens.size();
  const absl::Span<const uint32_t> tokens = text.tokens;
  for (size_t n : kMatches) {
    for (size_t end = n; end < tokens.size(); ++end) {
      const auto it = places_.find(Key(text.scope, tokens.subspan(end - n, n)));
      if (it != places_.end() && it->second.text == text.number) places_.erase(it);
    }
  }
}

absl::Span<const uint32_t> RecalledTexts::After(absl::string_view scope,
                                                absl::Span<const uint32_t> text,
                                                std::optional<Noise> without) const {
  for (size_t n : kMatches) {
    if (text.size() < n) continue;
    const absl::Span<const uint32_t> ngram = text.last(n);
    const auto it = places_.find(Key(scope, ngram));
    if (it == places_.end()) continue;
    const Text& found = texts_[it->second.text - texts_.front().number];
    const absl::Span<const uint32_t> tokens = found.tokens;
    if (found.scope != scope || tokens.subspan(it->second.position - n, n) != ngram) continue;
    if (without.has_value() && found.noise == without) continue;
    return tokens.subspan(it->second.position);
  }
  return {};
}

}  // namespace tandem::draft_service
