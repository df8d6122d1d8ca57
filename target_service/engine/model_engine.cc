#include "target_service/engine/model_engine.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/acceptance/tree.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace tandem::target_service {
namespace {

// Of a scratch sequence: as much as a round has at most, more or less.
constexpr int kProbeRows = 32;

// Of a part's rows the first one whose logits are wanted.
int FirstLogitsRow(const PassPart& part) {
  if (!part.prompt_targets.empty()) return 0;
  const size_t judged = part.block != nullptr ? part.block->size() + 1 : 0;
  return static_cast<int>(part.tokens.size() - judged);
}

// Of each row of a part that ends with a tree. The rows before the root are a chain.
std::vector<int> RowParents(const PassPart& part) {
  const int root = static_cast<int>(part.committed()) - part.start - 1;
  std::vector<int> parents;
  parents.reserve(part.tokens.size());
  for (int row = 0; row <= root; ++row) parents.push_back(row - 1);
  for (const uint32_t node : part.block->parents) parents.push_back(root + static_cast<int>(node));
  return parents;
}

}  // namespace

void ModelSequence::Take(int start, absl::Span<const uint32_t> tokens) {
  cache_->Truncate(start);
  tokens_.resize(static_cast<size_t>(start));
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  last_part_ = tokens.size();
  if (history_.has_value()) {
    history_->Truncate(std::min(history_->size(), static_cast<size_t>(start)));
  }
}

void ModelSequence::KeepPath(size_t candidates, absl::Span<const uint32_t> path) {
  TANDEM_CHECK(candidates < last_part_);
  const size_t committed = tokens_.size() - candidates;
  const int root = static_cast<int>(last_part_ - candidates) - 1;  // a row of the last part
  std::vector<int> rows(static_cast<size_t>(root) + 1);
  std::iota(rows.begin(), rows.end(), 0);
  for (size_t i = 0; i < path.size(); ++i) {
    rows.push_back(root + static_cast<int>(path[i]));
    tokens_[committed + i] = tokens_[committed - 1 + path[i]];
  }
  tokens_.resize(committed + path.size());
  cache_->Keep(rows);
}

sampling::TokenHistory* ModelSequence::HistoryOf(const speculation::SequenceSettings& settings,
                                                 size_t size) {
  if (!settings.sampling.looks_back()) {
    history_.reset();
    return nullptr;
  }
  if (!history_.has_value() || history_->prompt_tokens() != settings.prompt_tokens) {
    history_.emplace(settings.prompt_tokens);
  }
  const size_t have = history_->size();
  history_->Append(absl::MakeConstSpan(tokens_).subspan(have, size - have));
  return &*history_;
}

ModelSequence& SequenceOf(const PassPart& part) {
  return *static_cast<ModelSequence*>(part.sequence);
}

ModelEngine::ModelEngine(std::unique_ptr<model::LanguageModel> model, uint32_t vocabulary_size)
    : model_(std::move(model)) {
  info_.model = model_->info();
  if (vocabulary_size > 0) info_.model.vocabulary_size = vocabulary_size;
  info_.rules.assign(std::begin(acceptance::kRules), std::end(acceptance::kRules));
  info_.logprobs = true;
  if (const auto room = model_->room()) {
    info_.pool_tokens = room->tokens;
    info_.page_tokens = room->page_tokens;
  }
  info_.max_rows = model_->max_rows();
}

absl::Status ModelEngine::CheckVocabulary(uint32_t vocabulary_size,
                                          const model::LanguageModel& model) {
  const uint32_t models = model.info().vocabulary_size;
  if (vocabulary_size <= models) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("vocabulary_size is ", vocabulary_size, ", above the model's, ", models));
}

void ModelEngine::NamePaths(const std::string& judge,
                            const std::vector<std::string>& switched_off) {
  absl::StrAppend(&info_.model.numerics_id, "/", judge);
  info_.switched_off.insert(info_.switched_off.end(), switched_off.begin(), switched_off.end());
}

absl::StatusOr<std::unique_ptr<EngineSequence>> ModelEngine::Open(int max_length) {
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<model::Cache> cache, model_->NewCache(max_length));
  return std::make_unique<ModelSequence>(std::move(cache));
}

int ModelEngine::Recall(EngineSequence& sequence, const model::CachePrefix& prefix) {
  auto& mine = static_cast<ModelSequence&>(sequence);
  const int length = model_->Recall(*mine.cache(), prefix);
  mine.Begin(prefix.tokens.first(static_cast<size_t>(length)));
  return length;
}

void ModelEngine::Share(EngineSequence& sequence, const model::CachePrefix& prefix) {
  model_->Share(*static_cast<ModelSequence&>(sequence).cache(), prefix);
}

std::optional<int64_t> ModelEngine::free_tokens() const {
  const auto room = model_->room();
  return room.has_value() ? std::optional(room->free) : std::nullopt;
}

ModelPass ModelEngine::Take(absl::Span<const PassPart> parts) {
  ModelPass pass;
  pass.forward.reserve(parts.size());
  pass.first_rows.reserve(parts.size());
  pass.block_rows.reserve(parts.size());
  pass.parents.reserve(parts.size());  // forward points into them
  int rows = 0;
  for (const PassPart& part : parts) {
    SequenceOf(part).Take(part.start, part.tokens);
    const int first = FirstLogitsRow(part);
    const int committed = static_cast<int>(part.committed()) - part.start;  // of its tokens
    const bool tree = part.block != nullptr && !part.block->parents.empty();
    pass.parents.push_back(tree ? RowParents(part) : std::vector<int>());
    pass.forward.push_back({SequenceOf(part).cache(), part.tokens, first, pass.parents.back()});
    pass.first_rows.push_back(rows);
    pass.block_rows.push_back(rows + committed - 1 - first);
    rows += static_cast<int>(part.tokens.size()) - first;
  }
  return pass;
}

// Of a tree that could not be judged nothing stands.
void ModelEngine::KeepPath(const PassPart& part, PartResult& result) {
  if (part.block == nullptr || part.block->parents.empty()) return;
  if (result.status.ok()) {
    result.path = acceptance::DecideTree(result.entries, part.block->parents).path;
  }
  SequenceOf(part).KeepPath(part.block->size(), result.path);
}

absl::StatusOr<ProbedPass> ModelEngine::Probe(int rows) {
  TANDEM_CHECK(!in_flight()) << "a pass is in flight";
  const int room = std::min(kProbeRows, static_cast<int>(model_->info().context_length));
  const std::vector<uint32_t> tokens(static_cast<size_t>(room), 0);
  std::vector<std::unique_ptr<model::Cache>> caches;
  std::vector<model::ForwardPart> parts;
  ProbedPass probed;
  while (probed.rows < rows) {
    auto cache = model_->NewCache(room);
    if (!cache.ok()) break;
    const int taken = std::min(rows - probed.rows, room);
    parts.push_back(
        {cache->get(), absl::MakeConstSpan(tokens).first(static_cast<size_t>(taken)), 0});
    caches.push_back(*std::move(cache));
    probed.rows += taken;
  }
  if (probed.rows == 0) return probed;
  // Just after a load the page cache holds much that passes will have to read again and again. Who
  // was told that short a time would take the target for dead.
  model_->DropPages();
  TANDEM_ASSIGN_OR_RETURN(probed.computed, TimePass(parts));
  return probed;
}

}  // namespace tandem::target_service
