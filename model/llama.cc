#include "model/llama.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "model/llama_pass.h"

namespace tandem::model {
namespace {

// The order of summation and, where it matters, the weights: what widens to the file's values gives
// the file's bits, whatever it is held as.
constexpr char kNumericsId[] = "fp32/fma-in-order/1";
constexpr char kRoundedNumericsId[] = "fp32/fma-in-order/1/weights-bf16";

// Floats between rows of activations: three cache lines more than whole panels, so that rows of a
// size that is a power of two do not all fall on the same cache sets (8 rows of 4096: 2.5 instead
// of 3.2 ms).
int RowStride(int columns) { return cpu::RoundUpToPanel(columns) + 3 * cpu::kLanes; }

cpu::Buffer Rows(int rows, int stride) {
  return cpu::FloatBuffer(static_cast<size_t>(rows) * stride);
}

}  // namespace

Llama::Llama(const LlamaConfig& config, LlamaWeights weights, const LlamaOptions& options,
             std::string model_id)
    : config_(config),
      options_(options),
      kernels_(options.kernels == nullptr ? cpu::BestKernels() : *options.kernels),
      weights_(std::move(weights)),
      attention_shape_{config.head_size},
      team_(options.threads, cpu::ThreadTeam::Policy::kAloneWhenCrowded),
      pool_(std::make_shared<SpanPool>(config.layers, config.kv_heads, config.head_size,
                                       options.pool_tokens)),
      rope_frequencies_(RopeFrequencies(config.rope, config.head_size)),
      hidden_stride_(RowStride(config.hidden_size)),
      qkv_stride_(RowStride((config.heads + 2 * config.kv_heads) * config.head_size)),
      attended_stride_(RowStride(config.heads * config.head_size)),
      inner_stride_(RowStride(config.feed_forward_size)),
      residual_(Rows(options.max_rows, hidden_stride_)),
      normed_(Rows(options.max_rows, hidden_stride_)),
      qkv_(Rows(options.max_rows, qkv_stride_)),
      attended_(Rows(options.max_rows, attended_stride_)),
      inner_(Rows(options.max_rows, inner_stride_)),
      logits_(Rows(options.max_rows, config.vocabulary_size)) {
  info_.vocabulary_size = static_cast<uint32_t>(config.vocabulary_size);
  info_.context_length = static_cast<uint32_t>(config.context_length);
  info_.eos_token_ids = config.eos_token_ids;
  info_.sampling_defaults = config.sampling_defaults;
  info_.model_id = std::move(model_id);
  info_.numerics_id = weights_.exact() ? kNumericsId : kRoundedNumericsId;
  for (int member = 0; member < options.threads; ++member) {
    normed_of_member_.push_back(Rows(Pass::kPrivateRows, hidden_stride_));
    scratch_.emplace_back(attention_shape_, config.context_length);
  }
  parts_.reserve(options.max_rows);
  tokens_.reserve(options.max_rows);
  logits_rows_.reserve(options.max_rows);
}

absl::StatusOr<std::unique_ptr<Cache>> Llama::NewCache(int max_length) {
  if (max_length < 1 || max_length > config_.context_length) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_length is ", max_length, "; the model takes 1 to ", config_.context_length));
  }
  const int spans = (max_length + cpu::kSpanTokens - 1) / cpu::kSpanTokens;
  TANDEM_ASSIGN_OR_RETURN(std::vector<uint32_t> taken, pool_->Take(spans));
  GrowRopeTable(max_length);
  return std::make_unique<SpanCache>(pool_, std::move(taken), max_length);
}

void Llama::GrowRopeTable(int positions) {
  const int half = config_.head_size / 2;
  const int wanted = (positions + cpu::kSpanTokens - 1) / cpu::kSpanTokens * cpu::kSpanTokens;
  const int have = static_cast<int>(cosines_.size()) / half;
  if (wanted <= have) return;
  cosines_.resize(static_cast<size_t>(wanted) * half);
  sines_.resize(cosines_.size());
  for (int position = have; position < wanted; ++position) {
    for (int i = 0; i < half; ++i) {
      // The angle is rounded to float32, as transformers does; its cosine only once.
      const double angle = static_cast<float>(position) * rope_frequencies_[i];
      cosines_[static_cast<size_t>(position) * half + i] = static_cast<float>(std::cos(angle));
      sines_[static_cast<size_t>(position) * half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

absl::Status Llama::Check(absl::Span<const StepPart> parts) {
  ++step_;
  size_t rows = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const StepPart& part = parts[i];
    auto wrong = [i](auto... what) {
      return absl::InvalidArgumentError(absl::StrCat("part ", i, ": ", what...));
    };
    auto* cache = dynamic_cast<SpanCache*>(part.cache);
    if (cache == nullptr || cache->pool() != pool_.get()) {
      return wrong("its cache is not one of this model's");
    }
    if (std::exchange(cache->last_step, step_) == step_) return wrong("its cache comes twice");
    if (part.tokens.empty()) return wrong("it has no tokens");
    const size_t count = part.tokens.size();
    if (count > static_cast<size_t>(cache->max_length() - cache->length())) {
      return wrong(count, " tokens do not fit: the cache holds ", cache->length(), " of ",
                   cache->max_length());
    }
    if (absl::Status status = CheckParents(part.parents, count); !status.ok()) {
      return wrong(status.message());
    }
    if (cache->branches()) return wrong("its cache holds a tree; a path of it must be kept first");
    if (part.first_logits_row < 0 || static_cast<size_t>(part.first_logits_row) > count) {
      return wrong("first_logits_row is ", part.first_logits_row, "; 0 to ", count);
    }
    for (uint32_t token : part.tokens) {
      if (token >= info_.vocabulary_size) {
        return wrong("token ", token, " is not below the vocabulary's ", info_.vocabulary_size);
      }
    }
    rows += count;
  }
  if (rows > static_cast<size_t>(options_.max_rows)) {
    return absl::InvalidArgumentError(
        absl::StrCat(rows, " rows in one step; at most ", options_.max_rows));
  }
  return absl::OkStatus();
}

void Llama::Lay(absl::Span<const StepPart> parts) {
  parts_.clear();
  tokens_.clear();
  logits_rows_.clear();
  tree_rows_.clear();
  tree_slots_.clear();
  for (const StepPart& part : parts) {
    auto* cache = static_cast<SpanCache*>(part.cache);
    const int first = static_cast<int>(tokens_.size());
    const int count = static_cast<int>(part.tokens.size());
    parts_.push_back({cache, first, count, cache->length(), part.parents});
    if (!part.parents.empty()) LayTree(parts_.back());
    tokens_.insert(tokens_.end(), part.tokens.begin(), part.tokens.end());
    for (int row = part.first_logits_row; row < count; ++row) logits_rows_.push_back(first + row);
  }
}

void Llama::LayTree(const Part& part) {
  tree_rows_.resize(part.first_row + part.rows);
  for (int i = 0; i < part.rows; ++i) {
    const int parent = part.parents[i];
    const int slot = part.position + i;
    TreeRow row{part.position, part.position, static_cast<int>(tree_slots_.size())};
    if (parent >= 0) {
      const TreeRow& above = tree_rows_[part.first_row + parent];
      row.position = above.position + 1;
      row.straight = above.straight;
      for (int at = above.straight; at <= above.position; ++at) {
        tree_slots_.push_back(tree_slots_[above.first_rest + at - above.straight]);
      }
    }
    if (row.straight == row.position && slot == row.position) {
      ++row.straight;
    } else {
      tree_slots_.push_back(slot);
    }
    tree_rows_[part.first_row + i] = row;
  }
}

absl::StatusOr<Logits> Llama::Step(absl::Span<const StepPart> parts) {
  TANDEM_RETURN_IF_ERROR(Check(parts));
  Lay(parts);
  Logits result;
  result.data = logits_.floats();
  result.rows = static_cast<int>(logits_rows_.size());
  result.vocabulary_size = config_.vocabulary_size;
  if (tokens_.empty()) return result;
  Pass pass(*this);
  {
    const cpu::ComputePool::Turn turn(options_.compute.get(), team_.Wanted());
    team_.Run(pass, turn.cores());
  }
  for (const Part& part : parts_) part.cache->Grow(part.rows, part.parents);
  return result;
}

void Llama::ForEach(int count, absl::FunctionRef<void(int i)> work) {
  std::atomic<int> next{0};
  auto take = [&](int /*member*/) {
    for (int i = next++; i < count; i = next++) work(i);
  };
  const int helpers = std::max(0, std::min(team_.Ready(), count) - 1);
  const cpu::ComputePool::Spare spare(options_.compute.get(), helpers);
  team_.RunUneven(take, 1 + spare.cores());
}

}  // namespace tandem::model
