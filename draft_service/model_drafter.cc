#include "draft_service/model_drafter.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/check.h"
#include "common/config/status_macros.h"
#include "common/random/random.h"

namespace tandem::draft_service {
namespace {

// Room kept behind a text for candidates that run past its end; not less than any block.
constexpr uint64_t kRoomBehind = 64;
// From so many unread tokens on Accept reads them at once; fewer are read by Propose, together with the
// row that it needs anyway.
constexpr size_t kReadAtOnce = 32;

class ModelDrafter final : public Drafter {
 public:
  ModelDrafter(model::LanguageModel& model, const ModelDrafterOptions& options,
               const DraftSequence& sequence, std::unique_ptr<model::Cache> cache)
      : model_(model), options_(options), sequence_(sequence), cache_(std::move(cache)) {}

  absl::Status Accept(uint32_t keep, absl::Span<const uint32_t> tokens) override;
  absl::StatusOr<DraftedBlock> Propose(uint32_t most_tokens) override;

 private:
  size_t room() const { return static_cast<size_t>(cache_->most_tokens()); }
  absl::Status Read(size_t end);
  absl::StatusOr<model::Logits> Feed(absl::Span<const uint32_t> tokens, bool want_logits);
  absl::StatusOr<uint32_t> Pick(absl::Span<const float> logits, uint32_t position,
                                DraftedBlock& block) const;

  model::LanguageModel& model_;
  const ModelDrafterOptions options_;
  const DraftSequence sequence_;
  const std::unique_ptr<model::Cache> cache_;
  std::vector<uint32_t> committed_;
  // What is in the cache. The lag invariant: after a whole block was accepted this is one token short of
  // what it would need, because the last candidate was never fed; the next Propose feeds it first.
  std::vector<uint32_t> held_;
};

absl::Status ModelDrafter::Accept(uint32_t keep, absl::Span<const uint32_t> tokens) {
  TANDEM_CHECK(keep <= committed_.size()) << keep << " of " << committed_.size();
  committed_.resize(keep);
  committed_.insert(committed_.end(), tokens.begin(), tokens.end());
  const auto [held_end, committed_end] =
      std::mismatch(held_.begin(), held_.end(), committed_.begin(), committed_.end());
  (void)committed_end;
  const size_t common = static_cast<size_t>(held_end - held_.begin());
  held_.resize(common);
  cache_->Truncate(static_cast<int>(common));
  if (committed_.empty() || committed_.size() > room()) return absl::OkStatus();
  const size_t readable = committed_.size() - 1;  // the last one's row is Propose's first
  if (readable < held_.size() + kReadAtOnce) return absl::OkStatus();
  return Read(readable);
}

// Feeds the committed tokens up to `end`, none of which needs logits.
absl::Status ModelDrafter::Read(size_t end) {
  const size_t most = static_cast<size_t>(model_.most_rows());
  while (held_.size() < end) {
    const size_t rows = std::min(most, end - held_.size());
    auto logits = Feed(absl::MakeConstSpan(committed_).subspan(held_.size(), rows), false);
    TANDEM_RETURN_IF_ERROR(logits.status());
  }
  return absl::OkStatus();
}

absl::StatusOr<model::Logits> ModelDrafter::Feed(absl::Span<const uint32_t> tokens,
                                                 bool want_logits) {
  const int rows = static_cast<int>(tokens.size());
  const model::StepPart part{cache_.get(), tokens, want_logits ? rows - 1 : rows};
  TANDEM_ASSIGN_OR_RETURN(model::Logits logits, model_.Step({&part, 1}));
  held_.insert(held_.end(), tokens.begin(), tokens.end());
  return logits;
}

absl::StatusOr<DraftedBlock> ModelDrafter::Propose(uint32_t most_tokens) {
  DraftedBlock block;
  // Nothing past the end of the model's context; the last candidate needs no room, it is not fed.
  if (committed_.empty() || committed_.size() > room()) return block;
  const size_t count = std::min<size_t>(most_tokens, room() - committed_.size() + 1);
  if (held_.size() >= committed_.size()) {  // its row is wanted for the logits
    held_.resize(committed_.size() - 1);
    cache_->Truncate(static_cast<int>(held_.size()));
  }
  const size_t most = static_cast<size_t>(model_.most_rows());
  if (committed_.size() - held_.size() > most) TANDEM_RETURN_IF_ERROR(Read(committed_.size() - 1));

  std::vector<uint32_t> next(committed_.begin() + static_cast<ptrdiff_t>(held_.size()),
                             committed_.end());
  while (block.tokens.size() < count) {
    TANDEM_ASSIGN_OR_RETURN(model::Logits logits, Feed(next, true));
    const uint32_t position = static_cast<uint32_t>(committed_.size() + block.tokens.size());
    TANDEM_ASSIGN_OR_RETURN(const uint32_t token, Pick(logits.row(0), position, block));
    block.tokens.push_back(token);
    next.assign(1, block.tokens.back());
  }
  return block;
}

absl::StatusOr<uint32_t> ModelDrafter::Pick(absl::Span<const float> logits, uint32_t position,
                                            DraftedBlock& block) const {
  if (options_.proposal == Proposal::kGreedy || sequence_.sampling.greedy()) {
    return sampling::ArgMax(logits, options_.vocabulary_size);
  }
  const random::RoundKey key{sequence_.seed, sequence_.sample_index,
                             static_cast<uint32_t>(committed_.size())};
  const sampling::Distribution q =
      sampling::MakeDistribution(logits, options_.vocabulary_size, sequence_.sampling);
  if (q.ids.empty()) {
    return absl::InternalError("the draft model's logits hold a NaN or an infinity");
  }
  block.q.push_back(sampling::Sparsify(q, options_.top_m));
  return sampling::Draw(block.q.back(), random::Uniform(key, position, random::Purpose::kDraft));
}

}  // namespace

absl::StatusOr<Proposal> ParseProposal(absl::string_view text) {
  if (text == "sampled") return Proposal::kSampled;
  if (text == "greedy") return Proposal::kGreedy;
  return absl::InvalidArgumentError(
      absl::StrCat("proposal \"", text, "\" is none of: sampled, greedy"));
}

absl::Status ModelDrafterOptions::Validate() const {
  if (top_m < 1 || top_m > sampling::kMostSparseEntries) {
    return absl::InvalidArgumentError(
        absl::StrCat("top_m is ", top_m, ", outside 1 to ", sampling::kMostSparseEntries));
  }
  if (name.empty()) return absl::InvalidArgumentError("a drafter's name is not empty");
  return absl::OkStatus();
}

DrafterFactory ModelDrafterFactory(model::LanguageModel& model, ModelDrafterOptions options) {
  TANDEM_CHECK_OK(options.Validate());
  if (options.vocabulary_size == 0) options.vocabulary_size = model.info().vocabulary_size;
  TANDEM_CHECK(options.vocabulary_size <= model.info().vocabulary_size)
      << options.vocabulary_size << " tokens of " << model.info().vocabulary_size;
  return {
      options.name,
      [&model, options](const DraftSequence& sequence) -> absl::StatusOr<std::unique_ptr<Drafter>> {
        const uint64_t room =
            std::min(uint64_t{model.info().context_length}, sequence.most_tokens + kRoomBehind);
        TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<model::Cache> cache,
                                model.NewCache(static_cast<int>(room)));
        return std::make_unique<ModelDrafter>(model, options, sequence, std::move(cache));
      }};
}

}  // namespace tandem::draft_service
