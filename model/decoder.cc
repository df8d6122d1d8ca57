#include "model/decoder.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "model/paged_cache.h"

namespace tandem::model {
namespace {

// The order of summation and, where it matters, the weights: what widens to the file's values gives
// the file's bits, whatever it is held as.
constexpr char kNumericsId[] = "fp32/fma-in-order/1";

// int8 sums are exact; what is around them is as above.
constexpr char kInt8NumericsId[] = "int8-by-row-and-column/1/fp32/fma-in-order/1";

// The order of sums by group is told in cpu/grouped.h; what is not by group is as above.
constexpr char kGroupedNumericsId[] = "int8-by-group/1/fp32/fma-in-order/1";

std::string WeightsId(const DecoderWeights& weights) {
  if (weights.dtype() == Dtype::kInt8ByRow) return kInt8NumericsId;
  // A checkpoint of int8: what it has in floating point stays so, or is held by group.
  if (weights.int8()) {
    return absl::StrCat(kInt8NumericsId, weights.grouped() ? "/others-" : "/others-as-filed",
                        weights.grouped() ? kGroupedNumericsId : "");
  }
  if (weights.grouped()) {
    return absl::StrCat(kGroupedNumericsId, "/weights-", DtypeName(weights.dtype()));
  }
  if (weights.exact()) return kNumericsId;
  return absl::StrCat(kNumericsId, "/weights-", DtypeName(weights.dtype()));
}

std::string NumericsId(const DecoderWeights& weights, cpu::WeightType cache_type) {
  const bool rounded = cache_type == cpu::WeightType::kBfloat16;
  return absl::StrCat(WeightsId(weights), rounded ? "/cache-bf16" : "");
}

}  // namespace

absl::Status Decoder::CheckSpec(const DecoderSpec& spec) {
  std::vector<std::string> problems;
  auto refuse = [&problems](const char* name, auto value, const char* computed) {
    problems.push_back(absl::StrCat(name, " is ", value, ": supported: ", computed));
  };
  const bool layer_norm = spec.norm.kind == NormSpec::Kind::kLayer;
  if (layer_norm && spec.qk_norm != QkNorm::kNone) {
    refuse("qk_norm", QkNormName(spec.qk_norm), "none where norm.kind is layer");
  }
  if (layer_norm && spec.post_norm) refuse("post_norm", "true", "false where norm.kind is layer");
  if (layer_norm && spec.norm.plus_one) {
    refuse("norm.plus_one", "true", "false where norm.kind is layer");
  }
  if (spec.parallel_residual && spec.post_norm) {
    refuse("post_norm", "true", "false where parallel_residual is true");
  }
  for (const RopeSpec* rope : {&spec.rope, spec.sliding_rope ? &*spec.sliding_rope : &spec.rope}) {
    const int size = rope->rotary_size(spec.head_size);
    if (size >= 2 && size <= spec.head_size && size % 2 == 0) continue;
    refuse("rope.partial_rotary_factor", rope->partial_rotary_factor,
           "what makes an even number of a head's elements, at least 2, at most all");
    break;
  }
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the decoder does not compute this model: ", absl::StrJoin(problems, "; ")));
}

Decoder::Decoder(const DecoderSpec& spec, DecoderWeights weights, const DecoderOptions& options,
                 ModelInfo info)
    : spec_(spec),
      options_(options),
      kernels_(options.kernels == nullptr ? cpu::BestKernels() : *options.kernels),
      weights_(std::move(weights)),
      attention_shape_{spec.head_size, options.cache_type},
      info_(std::move(info)),
      team_(options.threads, cpu::ThreadTeam::Policy::kAloneWhenCrowded),
      pool_(std::make_shared<PagePool>(spec.layers, spec.kv_heads, attention_shape_,
                                       options.pool_tokens)),
      prefixes_(*pool_),
      attention_scale_(spec.attention_scale == 0.0
                           ? 1.0f / std::sqrt(static_cast<float>(spec.head_size))
                           : static_cast<float>(spec.attention_scale)),
      layout_(options.max_rows),
      activations_(spec, options.max_rows, options.threads, weights_.int8(), weights_.grouped()) {
  TANDEM_CHECK_OK(CheckSpec(spec));
  ropes_.emplace_back(spec.rope, spec.head_size);
  if (spec.sliding_rope.has_value()) ropes_.emplace_back(*spec.sliding_rope, spec.head_size);
  info_.vocabulary_size = static_cast<uint32_t>(spec.vocabulary_size);
  info_.context_length = static_cast<uint32_t>(spec.context_length);
  info_.numerics_id = NumericsId(weights_, options.cache_type);
}

absl::StatusOr<std::unique_ptr<Cache>> Decoder::NewCache(int max_length) {
  if (max_length < 1 || max_length > spec_.context_length) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_length is ", max_length, "; the model takes 1 to ", spec_.context_length));
  }
  const int pages = (max_length + cpu::kPageTokens - 1) / cpu::kPageTokens;
  TANDEM_ASSIGN_OR_RETURN(std::vector<uint32_t> taken, prefixes_.Allocate(pages));
  for (RopeTable& rope : ropes_) rope.Grow(pages * cpu::kPageTokens);
  return std::make_unique<PagedCache>(pool_, std::move(taken), max_length);
}

std::optional<CacheRoom> Decoder::room() const { return prefixes_.room(); }

int Decoder::Recall(Cache& cache, const CachePrefix& prefix) {
  return prefixes_.Recall(cache, prefix);
}

void Decoder::Share(Cache& cache, const CachePrefix& prefix) { prefixes_.Share(cache, prefix); }

absl::StatusOr<Logits> Decoder::Forward(absl::Span<const ForwardPart> parts) {
  TANDEM_RETURN_IF_ERROR(
      CheckPass(parts, *pool_, info_.vocabulary_size, options_.max_rows, ++step_));
  layout_.Lay(parts);
  Logits result;
  result.data = activations_.logits.row(0);
  result.rows = static_cast<int>(layout_.logits_rows().size());
  result.vocabulary_size = spec_.vocabulary_size;
  if (layout_.rows() == 0) return result;
  {
    const cpu::ComputePool::Turn turn(options_.compute.get(), team_.Wanted());
    auto run = [this](int member) { RunMember(member); };
    team_.Run(run, turn.cores());
  }
  for (const PassLayout::Part& part : layout_.parts())
    part.cache->Grow(part.rows, part.parents, part.grows);
  return result;
}

const RopeTable* Decoder::layer_rope(int layer) const {
  const RopeSpec* rope = spec_.layer_rope(layer);
  if (rope == nullptr) return nullptr;
  return rope == &spec_.rope ? &ropes_[0] : &ropes_[1];
}

void Decoder::ForEach(int count, absl::FunctionRef<void(int i)> work) {
  std::atomic<int> next{0};
  auto take = [&](int /*member*/) {
    for (int i = next++; i < count; i = next++) work(i);
  };
  const int helpers = std::max(0, std::min(team_.Ready(), count) - 1);
  const cpu::ComputePool::Spare spare(options_.compute.get(), helpers);
  team_.RunUneven(take, 1 + spare.cores());
}

}  // namespace tandem::model
