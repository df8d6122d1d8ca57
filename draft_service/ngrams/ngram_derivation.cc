#include "draft_service/ngrams/ngram_derivation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/sampling/distribution.h"

namespace tandem::draft_service {
namespace {

// Weights are probabilities times this.
constexpr double kWhole = 2147483648.0;

uint32_t WeightOf(double probability) {
  return static_cast<uint32_t>(std::max(1.0, std::round(probability * kWhole)));
}

// `count` ids of the largest values, which fall; ties to the lower id.
std::vector<uint32_t> Largest(size_t size, uint32_t count, const auto& value) {
  std::vector<uint32_t> ids(size);
  std::iota(ids.begin(), ids.end(), 0U);
  std::partial_sort(ids.begin(), ids.begin() + count, ids.end(), [&value](uint32_t a, uint32_t b) {
    return value(a) != value(b) ? value(a) > value(b) : a < b;
  });
  ids.resize(count);
  return ids;
}

absl::Status CheckLogits(absl::Span<const float> logits) {
  for (float logit : logits) {
    if (std::isnan(logit)) return absl::InternalError("the model's logits hold a NaN");
  }
  return absl::OkStatus();
}

// The first `successors.size()` likeliest tokens.
void TakeLikeliest(absl::Span<const float> logits, absl::Span<Successor> successors) {
  const auto logit = [logits](uint32_t id) { return logits[id]; };
  const std::vector<uint32_t> ids =
      Largest(logits.size(), static_cast<uint32_t>(successors.size()), logit);
  const double largest = logits[ids[0]];
  double sum = 0;
  for (float one : logits) sum += std::exp(one - largest);
  for (size_t i = 0; i < ids.size(); ++i) {
    successors[i] = {ids[i], WeightOf(std::exp(logits[ids[i]] - largest) / sum)};
  }
}

// A batch of tokens that stand next to each other, a cache each.
class Batch {
 public:
  static absl::StatusOr<Batch> Make(model::LanguageModel& model, const DerivationOptions& options,
                                    const NgramShape& shape) {
    const size_t beginning = options.beginning.size();
    const uint64_t length = beginning + 2 + shape.continuation;
    if (length > model.info().context_length) {
      return absl::InvalidArgumentError(
          absl::StrCat("the model's context has ", model.info().context_length, " tokens; ", length,
                       " are needed: derive shorter continuations"));
    }
    // A first pass of a sequence has its beginning, too.
    uint64_t size =
        std::max<uint64_t>(1, static_cast<uint64_t>(model.max_rows()) / (beginning + 1));
    if (const auto room = model.room()) {
      const uint64_t pages = (length + room->page_tokens - 1) / room->page_tokens;
      size = std::min<uint64_t>(size, room->free / (pages * room->page_tokens));
    }
    Batch batch(model, options, shape);
    for (uint64_t i = 0; i < std::max<uint64_t>(size, 1); ++i) {
      TANDEM_ASSIGN_OR_RETURN(auto cache, model.NewCache(static_cast<int>(length)));
      batch.caches_.push_back(std::move(cache));
    }
    return batch;
  }

  size_t size() const { return caches_.size(); }

  // Tokens from `first` on, `count` of them, at most size(): [count][successors] and
  // [count][successors][continuation].
  absl::Status Derive(uint32_t first, uint32_t count, absl::Span<Successor> bigrams,
                      absl::Span<uint32_t> continuations) {
    std::vector<std::vector<uint32_t>> fed(count, options_.beginning);
    for (uint32_t i = 0; i < count; ++i) fed[i].push_back(first + i);
    TANDEM_RETURN_IF_ERROR(Feed(0, fed, [&](uint32_t i, absl::Span<const float> logits) {
      TakeLikeliest(logits, bigrams.subspan(size_t{i} * shape_.successors, shape_.successors));
    }));
    const int read = static_cast<int>(options_.beginning.size()) + 1;
    for (uint32_t rank = 0; rank < shape_.successors && shape_.continuation > 0; ++rank) {
      for (uint32_t i = 0; i < count; ++i) {
        fed[i] = {bigrams[size_t{i} * shape_.successors + rank].token};
      }
      for (uint32_t step = 0; step < shape_.continuation; ++step) {
        TANDEM_RETURN_IF_ERROR(Feed(read + static_cast<int>(step), fed,
                                    [&](uint32_t i, absl::Span<const float> logits) {
                                      fed[i] = {sampling::ArgMax(logits, shape_.vocabulary_size)};
                                      const size_t at = size_t{i} * shape_.successors + rank;
                                      continuations[at * shape_.continuation + step] = fed[i][0];
                                    }));
      }
    }
    return absl::OkStatus();
  }

 private:
  Batch(model::LanguageModel& model, const DerivationOptions& options, const NgramShape& shape)
      : model_(model), options_(options), shape_(shape) {}

  // Each sequence goes on from its first `length` tokens; `use` gets the logits of its last row.
  absl::Status Feed(int length, std::vector<std::vector<uint32_t>>& fed, const auto& use) {
    std::vector<model::ForwardPart> parts;
    for (size_t i = 0; i < fed.size(); ++i) {
      caches_[i]->Truncate(length);
      parts.push_back({caches_[i].get(), fed[i], static_cast<int>(fed[i].size()) - 1});
    }
    TANDEM_ASSIGN_OR_RETURN(const model::Logits logits, model_.Forward(parts));
    for (uint32_t i = 0; i < fed.size(); ++i) {
      const auto row = logits.row(static_cast<int>(i)).first(shape_.vocabulary_size);
      TANDEM_RETURN_IF_ERROR(CheckLogits(row));
      use(i, row);
    }
    return absl::OkStatus();
  }

  model::LanguageModel& model_;
  const DerivationOptions& options_;
  const NgramShape& shape_;
  std::vector<std::unique_ptr<model::Cache>> caches_;
};

}  // namespace

absl::Status DeriveTokens(model::LanguageModel& model, const DerivationOptions& options,
                          DerivedNgrams& derived) {
  const NgramShape& shape = derived.shape;
  TANDEM_CHECK(shape.vocabulary_size <= model.info().vocabulary_size);
  if (derived.done == shape.vocabulary_size) return absl::OkStatus();
  TANDEM_ASSIGN_OR_RETURN(Batch batch, Batch::Make(model, options, shape));
  while (derived.done < shape.vocabulary_size) {
    const uint32_t count = static_cast<uint32_t>(
        std::min<uint64_t>(batch.size(), shape.vocabulary_size - derived.done));
    const size_t first = size_t{derived.done} * shape.successors;
    const size_t pairs = size_t{count} * shape.successors;
    TANDEM_RETURN_IF_ERROR(
        batch.Derive(derived.done, count, absl::MakeSpan(derived.bigrams).subspan(first, pairs),
                     absl::MakeSpan(derived.continuations)
                         .subspan(first * shape.continuation, pairs * shape.continuation)));
    derived.done += count;
    if (options.after_batch) TANDEM_RETURN_IF_ERROR(options.after_batch());
  }
  return absl::OkStatus();
}

std::vector<Successor> NearestTokens(absl::Span<const double> distances, uint32_t count) {
  TANDEM_CHECK(count >= 1 && count <= distances.size());
  const auto nearness = [distances](uint32_t id) { return -distances[id]; };
  std::vector<Successor> nearest;
  for (uint32_t id : Largest(distances.size(), count, nearness)) {
    const double least = nearest.empty() ? distances[id] : distances[nearest.front().token];
    nearest.push_back({id, WeightOf(std::exp(least - distances[id]))});
  }
  return nearest;
}

}  // namespace tandem::draft_service
