#include "draft_service/drafters/prompt_lookup.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "common/base/check.h"
#include "draft_service/ngrams/ngram_index.h"

namespace tandem::draft_service {
namespace {

// The position that follows the latest earlier occurrence of the text's last n tokens.
std::optional<uint32_t> Latest(const NgramIndex& index, absl::Span<const uint32_t> text) {
  const absl::Span<const uint32_t> follows = index.Follows(text);
  for (size_t i = follows.size(); i-- > 0;) {
    if (index.SameAsLast(text, follows[i])) return follows[i];  // else two n-grams share a key
  }
  return std::nullopt;
}

class PromptLookup final : public Drafter {
 public:
  explicit PromptLookup(const PromptLookupOptions& options) {
    for (int n = options.longest_match; n >= options.shortest_match; --n)
      indices_.emplace_back(static_cast<size_t>(n));
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
      std::optional<uint32_t> follows = Latest(index, text_);
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
  TANDEM_CHECK(options.shortest_match >= 1 && options.shortest_match <= options.longest_match &&
               options.longest_match <= 8)
      << options.shortest_match << " to " << options.longest_match;
  return {options.name,
          [options](const speculation::SequenceSettings&,
                    Proposal) -> absl::StatusOr<std::unique_ptr<Drafter>> {
            return std::make_unique<PromptLookup>(options);
          },
          /*samples=*/false};
}

}  // namespace tandem::draft_service
