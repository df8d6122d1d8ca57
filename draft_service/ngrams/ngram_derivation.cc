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

// A text that the tokens of a batch stand after, with a cache of its own.
struct Text {
  absl::Span<const uint32_t> tokens;
  bool asked = true;           // for the bigrams; else for the continuations
  int64_t rows_per_token = 1;  // that its cache takes at most for each token of a batch

  int64_t CacheLength(int64_t batch) const {
    return static_cast<int64_t>(tokens.size()) + batch * rows_per_token;
  }
};

// The contexts, then, if there are continuations, the beginning, after which they are written.
std::vector<Text> TextsOf(const DerivationOptions& options, uint32_t continuation) {
  std::vector<Text> texts;
  for (const std::vector<uint32_t>& context : options.contexts) texts.push_back({context});
  if (continuation > 0) texts.push_back({options.beginning, false, 1 + int64_t{continuation}});
  return texts;
}

// Of one pass, with a row for each after each text.
int64_t FullBatch(absl::Span<const Text> texts, int max_rows) {
  return std::max<int64_t>(1, max_rows / static_cast<int64_t>(texts.size()));
}

int64_t LongestCache(absl::Span<const Text> texts, int64_t batch) {
  int64_t longest = 0;
  for (const Text& text : texts) longest = std::max(longest, text.CacheLength(batch));
  return longest;
}

// Of all caches together, in whole pages.
int64_t CacheTokens(absl::Span<const Text> texts, int64_t batch, int64_t page_tokens) {
  int64_t pages = 0;
  for (const Text& text : texts) {
    pages += (text.CacheLength(batch) + page_tokens - 1) / page_tokens;
  }
  return pages * page_tokens;
}

// A batch of tokens that stand next to each other: siblings after each text, which stays in its
// cache from one batch to the next.
class Batch {
 public:
  static absl::StatusOr<Batch> Make(model::LanguageModel& model, const DerivationOptions& options,
                                    const NgramShape& shape) {
    std::vector<Text> texts = TextsOf(options, shape.continuation);
    // A cache holds a whole tree, which the context length bounds, too.
    const int64_t context_length = model.info().context_length;
    if (const int64_t least = LongestCache(texts, 1); least > context_length) {
      return absl::InvalidArgumentError(
          absl::StrCat("the model's context has ", context_length, " tokens; ", least,
                       " are required: derive shorter continuations"));
    }
    const auto room = model.room();
    int64_t size = FullBatch(texts, model.max_rows());
    while (size > 1 && (LongestCache(texts, size) > context_length ||
                        (room && CacheTokens(texts, size, room->page_tokens) > room->free))) {
      --size;
    }
    Batch batch(model, shape, std::move(texts), size);
    TANDEM_RETURN_IF_ERROR(batch.ReadTexts());
    return batch;
  }

  uint32_t size() const { return size_; }

  // Tokens from `first` on, `count` of them, at most size(): [count][successors] and
  // [count][successors][continuation].
  absl::Status Derive(uint32_t first, uint32_t count, absl::Span<Successor> bigrams,
                      absl::Span<uint32_t> continuations) {
    std::vector<uint32_t> fed(count);
    std::iota(fed.begin(), fed.end(), first);
    TANDEM_RETURN_IF_ERROR(Ask(fed, bigrams));
    if (shape_.continuation == 0) return absl::OkStatus();
    const int end = static_cast<int>(texts_.back().tokens.size() + count);  // of the tokens
    for (uint32_t rank = 0; rank < shape_.successors; ++rank) {
      caches_.back()->Truncate(end);
      for (uint32_t i = 0; i < count; ++i) {
        fed[i] = bigrams[size_t{i} * shape_.successors + rank].token;
      }
      for (uint32_t step = 0; step < shape_.continuation; ++step) {
        TANDEM_RETURN_IF_ERROR(WriteOn(step, fed));
        for (uint32_t i = 0; i < count; ++i) {
          const size_t at = size_t{i} * shape_.successors + rank;
          continuations[at * shape_.continuation + step] = fed[i];
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  Batch(model::LanguageModel& model, const NgramShape& shape, std::vector<Text> texts, int64_t size)
      : model_(model),
        shape_(shape),
        texts_(std::move(texts)),
        size_(static_cast<uint32_t>(size)) {}

  absl::Status ReadTexts() {
    for (const Text& text : texts_) {
      TANDEM_ASSIGN_OR_RETURN(auto cache,
                              model_.NewCache(static_cast<int>(text.CacheLength(size_))));
      if (const int rows = static_cast<int>(text.tokens.size()); rows > 0) {
        TANDEM_RETURN_IF_ERROR(model_.Forward({{cache.get(), text.tokens, rows}}).status());
      }
      caches_.push_back(std::move(cache));
    }
    return absl::OkStatus();
  }

  // The likeliest tokens after each of `tokens`: [tokens][successors].
  absl::Status Ask(absl::Span<const uint32_t> tokens, absl::Span<Successor> bigrams) {
    const std::vector<int> roots(tokens.size(), -1);
    std::vector<model::ForwardPart> parts;
    size_t asked = 0;
    for (size_t i = 0; i < texts_.size(); ++i) {
      caches_[i]->Truncate(static_cast<int>(texts_[i].tokens.size()));
      if (texts_[i].asked) ++asked;
      const int first_logits_row = texts_[i].asked ? 0 : static_cast<int>(tokens.size());
      parts.push_back({caches_[i].get(), tokens, first_logits_row, roots});
    }
    TANDEM_ASSIGN_OR_RETURN(const model::Logits logits, model_.Forward(parts));
    std::vector<float> mean(shape_.vocabulary_size);
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::fill(mean.begin(), mean.end(), 0.0F);
      for (size_t context = 0; context < asked; ++context) {
        const auto row = logits.row(static_cast<int>(context * tokens.size() + i));
        for (size_t id = 0; id < mean.size(); ++id) mean[id] += row[id];
      }
      for (float& logit : mean) logit /= static_cast<float>(asked);
      TANDEM_RETURN_IF_ERROR(CheckLogits(mean));
      TakeLikeliest(mean, bigrams.subspan(i * shape_.successors, shape_.successors));
    }
    return absl::OkStatus();
  }

  // `tokens` follow those of the step before, of step 0 those that were asked about. They become
  // what the model writes after them.
  absl::Status WriteOn(uint32_t step, std::vector<uint32_t>& tokens) {
    std::vector<int> parents(tokens.size());
    std::iota(parents.begin(), parents.end(), static_cast<int>(step * tokens.size()));
    TANDEM_ASSIGN_OR_RETURN(
        const model::Logits logits,
        model_.Forward({{caches_.back().get(), tokens, 0, parents, /*grows=*/true}}));
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto row = logits.row(static_cast<int>(i)).first(shape_.vocabulary_size);
      TANDEM_RETURN_IF_ERROR(CheckLogits(row));
      tokens[i] = sampling::ArgMax(row, shape_.vocabulary_size);
    }
    return absl::OkStatus();
  }

  model::LanguageModel& model_;
  const NgramShape& shape_;
  const std::vector<Text> texts_;
  const uint32_t size_;                                // tokens, at most
  std::vector<std::unique_ptr<model::Cache>> caches_;  // of the texts
};

}  // namespace

int64_t DerivationRoom(const DerivationOptions& options, uint32_t continuation, int max_rows) {
  constexpr int64_t kPageTokens = 256;  // of the models' pools; another number makes other batches
  const std::vector<Text> texts = TextsOf(options, continuation);
  return CacheTokens(texts, FullBatch(texts, max_rows), kPageTokens);
}

absl::Status DeriveTokens(model::LanguageModel& model, const DerivationOptions& options,
                          DerivedNgrams& derived) {
  const NgramShape& shape = derived.shape;
  TANDEM_CHECK(!options.contexts.empty());
  TANDEM_CHECK(shape.vocabulary_size <= model.info().vocabulary_size);
  if (derived.done == shape.vocabulary_size) return absl::OkStatus();
  TANDEM_ASSIGN_OR_RETURN(Batch batch, Batch::Make(model, options, shape));
  while (derived.done < shape.vocabulary_size) {
    const uint32_t count = std::min(batch.size(), shape.vocabulary_size - derived.done);
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
