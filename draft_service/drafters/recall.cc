#include "draft_service/drafters/recall.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/random/random.h"
#include "draft_service/drafters/prompt_lookup.h"
#include "draft_service/ngrams/recalled_texts.h"

namespace tandem::draft_service {
namespace {

using acceptance::Rule;
using speculation::SequenceSettings;

// A draft is told the request's own seed under coupled, else the one that is derived from it.
std::optional<RecalledTexts::Noise> NoiseOf(const SequenceSettings& settings) {
  if (settings.sampling.greedy()) return std::nullopt;
  const uint64_t seed =
      settings.rule == Rule::kCoupled ? random::DeriveDraftSeed(settings.seed) : settings.seed;
  return RecalledTexts::Noise{seed, settings.sample_index};
}

class Recall final : public Drafter {
 public:
  Recall(std::shared_ptr<RecalledTexts> texts, const SequenceSettings& settings,
         std::unique_ptr<Drafter> lookup, bool ignore_seeds)
      : texts_(std::move(texts)),
        lookup_(std::move(lookup)),
        scope_(settings.cache_scope),
        prompt_tokens_(settings.prompt_tokens),
        noise_(ignore_seeds ? std::nullopt : NoiseOf(settings)),
        without_(settings.rule == Rule::kCoupled ? std::nullopt : noise_) {}

  ~Recall() override {
    // A match may begin within the prompt.
    const size_t begin = std::min<size_t>(text_.size(), prompt_tokens_);
    const size_t before = std::min(begin, RecalledTexts::kMatches.front());
    if (scope_.empty() || begin == text_.size()) return;
    texts_->Add(scope_, absl::MakeConstSpan(text_).subspan(begin - before), noise_);
  }

  absl::Status Accept(uint32_t keep, absl::Span<const uint32_t> tokens) override {
    TANDEM_CHECK(keep <= text_.size()) << keep << " of " << text_.size();
    text_.resize(keep);
    text_.insert(text_.end(), tokens.begin(), tokens.end());
    return lookup_->Accept(keep, tokens);
  }

  absl::StatusOr<CandidateTree> Propose(uint32_t max_draft_tokens) override {
    if (!scope_.empty()) {
      absl::Span<const uint32_t> after = texts_->After(scope_, text_, without_);
      after = after.first(std::min<size_t>(after.size(), max_draft_tokens));
      if (!after.empty()) return CandidateTree{.tokens = {after.begin(), after.end()}};
    }
    return lookup_->Propose(max_draft_tokens);
  }

 private:
  const std::shared_ptr<RecalledTexts> texts_;
  const std::unique_ptr<Drafter> lookup_;
  const std::string scope_;
  const uint32_t prompt_tokens_;
  const std::optional<RecalledTexts::Noise> noise_;
  const std::optional<RecalledTexts::Noise> without_;
  std::vector<uint32_t> text_;
};

}  // namespace

DrafterFactory RecallFactory(RecallOptions options) {
  TANDEM_CHECK(options.max_tokens >= 1);
  // All drafters work and end on the drafting thread.
  return {options.name,
          [texts = std::make_shared<RecalledTexts>(options.max_tokens),
           lookup = PromptLookupFactory(), ignore_seeds = options.ignore_seeds](
              const SequenceSettings& settings,
              Proposal proposal) -> absl::StatusOr<std::unique_ptr<Drafter>> {
            TANDEM_ASSIGN_OR_RETURN(auto own, lookup.make(settings, proposal));
            return std::make_unique<Recall>(texts, settings, std::move(own), ignore_seeds);
          },
          /*samples=*/false};
}

}  // namespace tandem::draft_service
