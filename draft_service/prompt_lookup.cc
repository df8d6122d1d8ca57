#include "draft_service/prompt_lookup.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "common/base/check.h"
#include "common/speculation/prefix.h"

namespace tandem::draft_service {
namespace {

// Where each n-gram of a growing and shrinking text ended. An append or a removal costs O(1).
class NgramIndex {
 public:
  explicit NgramIndex(size_t n) : n_(n) {}

  // The text's last token was appended, or is about to be removed.
  void Appended(absl::Span<const uint32_t> text) {
    if (text.size() >= n_) ends_[Key(text)].push_back(static_cast<uint32_t>(text.size()));
  }
  void Removing(absl::Span<const uint32_t> text) {
    if (text.size() < n_) return;
    auto it = ends_.find(Key(text));
    TANDEM_CHECK(it != ends_.end() && it->second.back() == text.size());
    it->second.pop_back();
    if (it->second.empty()) ends_.erase(it);
  }

  // The position that follows the latest earlier occurrence of the text's last n tokens.
  std::optional<uint32_t> Follows(absl::Span<const uint32_t> text) const {
    if (text.size() <= n_) return std::nullopt;
    const std::vector<uint32_t>& ends = ends_.at(Key(text));
    absl::Span<const uint32_t> last = text.last(n_);
    for (size_t i = ends.size() - 1; i-- > 0;) {  // the last entry is the text's own end
      if (text.subspan(ends[i] - n_, n_) == last) return ends[i];  // else two n-grams share a key
    }
    return std::nullopt;
  }

 private:
  uint64_t Key(absl::Span<const uint32_t> text) const {
    return speculation::PrefixHash(text.last(n_));
  }

  const size_t n_;
  absl::flat_hash_map<uint64_t, std::vector<uint32_t>> ends_;  // ascending
};

class PromptLookup final : public Drafter {
 public:
  explicit PromptLookup(int longest_match) {
    for (int n = longest_match; n >= 1; --n) indices_.emplace_back(static_cast<size_t>(n));
  }

  absl::Status Accept(uint32_t keep, absl::Span<const uint32_t> tokens) override {
    TANDEM_CHECK(keep <= text_.size()) << keep << " of " << text_.size();
    while (text_.size() > keep) {
      for (NgramIndex& index : indices_) index.Removing(text_);
      text_.pop_back();
    }
    for (uint32_t token : tokens) {
      text_.push_back(token);
      for (NgramIndex& index : indices_) index.Appended(text_);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<CandidateTree> Propose(uint32_t max_draft_tokens) override {
    CandidateTree block;
    for (const NgramIndex& index : indices_) {
      std::optional<uint32_t> follows = index.Follows(text_);
      if (!follows.has_value()) continue;
      const size_t count = std::min<size_t>(max_draft_tokens, text_.size() - *follows);
      block.tokens.assign(text_.begin() + *follows,
                          text_.begin() + *follows + static_cast<ptrdiff_t>(count));
      return block;
    }
    return block;
  }

 private:
  std::vector<uint32_t> text_;
  std::vector<NgramIndex> indices_;  // the longest first
};

}  // namespace

DrafterFactory PromptLookupFactory(PromptLookupOptions options) {
  TANDEM_CHECK(options.longest_match >= 1 && options.longest_match <= 8) << options.longest_match;
  return {options.name,
          [options](const speculation::SequenceSettings&,
                    Proposal) -> absl::StatusOr<std::unique_ptr<Drafter>> {
            return std::make_unique<PromptLookup>(options.longest_match);
          },
          /*samples=*/false};
}

}  // namespace tandem::draft_service
