#include "draft_service/ngrams/ngram_counter.h"

#include "common/base/check.h"

namespace tandem::draft_service {

NgramCounter::NgramCounter(uint32_t vocabulary_size, size_t max_bigrams)
    : max_bigrams_(max_bigrams), unigrams_(vocabulary_size) {
  TANDEM_CHECK(max_bigrams >= 1);
}

void NgramCounter::Add(absl::Span<const uint32_t> tokens) {
  for (uint32_t token : tokens) {
    if (token >= unigrams_.size()) {
      last_.reset();
      continue;
    }
    ++tokens_;
    ++unigrams_[token];
    if (last_.has_value()) {
      const uint64_t key = uint64_t{*last_} << 32 | token;
      auto it = bigrams_.find(key);
      if (it == bigrams_.end()) {
        if (bigrams_.size() == max_bigrams_) MakeRoom();
        it = bigrams_.emplace(key, 0).first;
      }
      ++it->second;
    }
    last_ = token;
  }
}

// A quarter of the room at least, so that this is rare.
void NgramCounter::MakeRoom() {
  const size_t before = bigrams_.size();
  for (uint64_t count = 1; bigrams_.size() > max_bigrams_ / 4 * 3; ++count) {
    absl::erase_if(bigrams_, [count](const auto& one) { return one.second <= count; });
  }
  dropped_ += before - bigrams_.size();
}

std::vector<NgramCounter::Bigram> NgramCounter::Bigrams() const {
  std::vector<Bigram> all;
  all.reserve(bigrams_.size());
  for (const auto& [key, count] : bigrams_) {
    all.push_back({static_cast<uint32_t>(key >> 32), static_cast<uint32_t>(key), count});
  }
  return all;
}

}  // namespace tandem::draft_service
