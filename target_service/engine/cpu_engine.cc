#include "target_service/engine/cpu_engine.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/concurrency/system_clock.h"
#include "common/sampling/token_history.h"

namespace tandem::target_service {
namespace {

// Of a scratch sequence: as much as a round has at most, more or less.
constexpr int kProbeRows = 32;

const concurrency::Clock& ClockOf(const CpuEngineOptions& options) {
  return options.clock != nullptr ? *options.clock : concurrency::SteadyClock::Default();
}

class CpuSequence final : public EngineSequence {
 public:
  explicit CpuSequence(std::unique_ptr<model::Cache> cache) : cache_(std::move(cache)) {}

  int max_length() const override { return cache_->max_length(); }
  int shared() const override { return cache_->shared(); }
  model::Cache* cache() { return cache_.get(); }

  // It holds nothing yet; the cache has begun with these.
  void Begin(absl::Span<const uint32_t> tokens) { tokens_.assign(tokens.begin(), tokens.end()); }

  // The first `start` tokens stay; `tokens` come after them.
  void Take(int start, absl::Span<const uint32_t> tokens) {
    cache_->Truncate(start);
    tokens_.resize(static_cast<size_t>(start));
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    if (history_.has_value()) {
      history_->Truncate(std::min(history_->size(), static_cast<size_t>(start)));
    }
  }

  // The first `size` tokens, where something looks back at them; else null. `size` does not fall
  // between two calls of Take.
  sampling::TokenHistory* HistoryOf(const speculation::SequenceSettings& settings, size_t size) {
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

 private:
  const std::unique_ptr<model::Cache> cache_;
  std::vector<uint32_t> tokens_;  // those in the cache, candidates too
  // The first ones of these, never a candidate of the last part; it follows when it is asked for.
  std::optional<sampling::TokenHistory> history_;
};

CpuSequence& Of(const PassPart& part) { return *static_cast<CpuSequence*>(part.sequence); }

// Of a part's rows the first one whose logits are wanted.
int FirstLogitsRow(const PassPart& part) {
  if (!part.prompt_targets.empty()) return 0;
  const size_t judged = part.block != nullptr ? part.block->size() + 1 : 0;
  return static_cast<int>(part.tokens.size() - judged);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuEngine>> CpuEngine::Create(
    const CpuEngineOptions& options, std::unique_ptr<model::LanguageModel> model) {
  TANDEM_CHECK(model != nullptr);
  const uint32_t vocabulary_size = model->info().vocabulary_size;
  if (options.vocabulary_size > vocabulary_size) {
    return absl::InvalidArgumentError(absl::StrCat("vocabulary_size is ", options.vocabulary_size,
                                                   ", above the model's, ", vocabulary_size));
  }
  return std::unique_ptr<CpuEngine>(new CpuEngine(options, std::move(model)));
}

CpuEngine::CpuEngine(const CpuEngineOptions& options, std::unique_ptr<model::LanguageModel> model)
    : judge_(options.judge ? options.judge : acceptance::Judge),
      clock_(ClockOf(options)),
      model_(std::move(model)) {
  info_.model = model_->info();
  if (options.vocabulary_size > 0) info_.model.vocabulary_size = options.vocabulary_size;
  info_.rules.assign(std::begin(acceptance::kRules), std::end(acceptance::kRules));
  info_.logprobs = true;
  if (const auto room = model_->room()) {
    info_.pool_tokens = room->tokens;
    info_.page_tokens = room->page_tokens;
  }
  info_.max_rows = model_->max_rows();
}

absl::StatusOr<std::unique_ptr<EngineSequence>> CpuEngine::Open(int max_length) {
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<model::Cache> cache, model_->NewCache(max_length));
  return std::make_unique<CpuSequence>(std::move(cache));
}

int CpuEngine::Recall(EngineSequence& sequence, const model::CachePrefix& prefix) {
  auto& mine = static_cast<CpuSequence&>(sequence);
  const int length = model_->Recall(*mine.cache(), prefix);
  mine.Begin(prefix.tokens.first(static_cast<size_t>(length)));
  return length;
}

void CpuEngine::Share(EngineSequence& sequence, const model::CachePrefix& prefix) {
  model_->Share(*static_cast<CpuSequence&>(sequence).cache(), prefix);
}

std::optional<int64_t> CpuEngine::free_tokens() const {
  const auto room = model_->room();
  return room.has_value() ? std::optional(room->free) : std::nullopt;
}

void CpuEngine::Launch(std::vector<PassPart> parts) {
  TANDEM_CHECK(launched_.empty()) << "a pass is in flight";
  TANDEM_CHECK(!parts.empty());
  launched_ = std::move(parts);
}

PassResult CpuEngine::Await() {
  TANDEM_CHECK(!launched_.empty()) << "no pass is in flight";
  const std::vector<PassPart> parts = std::exchange(launched_, {});
  const concurrency::Instant began = clock_.Now();
  std::vector<model::ForwardPart> forward;
  std::vector<int> first_rows;  // of each part, among those with logits
  forward.reserve(parts.size());
  first_rows.reserve(parts.size());
  int rows = 0;
  for (const PassPart& part : parts) {
    Of(part).Take(part.start, part.tokens);
    forward.push_back({Of(part).cache(), part.tokens, FirstLogitsRow(part)});
    first_rows.push_back(rows);
    rows += static_cast<int>(part.tokens.size()) - forward.back().first_logits_row;
  }
  const absl::StatusOr<model::Logits> logits = model_->Forward(forward);
  PassResult result;
  result.status = logits.status();
  result.computed = clock_.Now() - began;
  if (!logits.ok()) return result;
  result.parts.resize(parts.size());
  std::vector<size_t> judged;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].block != nullptr || !parts[i].prompt_targets.empty()) judged.push_back(i);
  }
  model_->ForEach(static_cast<int>(judged.size()), [&](int j) {
    const size_t i = judged[static_cast<size_t>(j)];
    JudgePart(parts[i], *logits, first_rows[i], result.parts[i]);
  });
  return result;
}

void CpuEngine::JudgePart(const PassPart& part, const model::Logits& logits, int first_row,
                          PartResult& result) const {
  const speculation::SequenceSettings& settings = *part.settings;
  const uint32_t vocabulary_size = info_.model.vocabulary_size;
  const uint32_t start = static_cast<uint32_t>(part.start);
  CpuSequence& sequence = Of(part);
  for (size_t i = 0; i < part.prompt_targets.size(); ++i) {
    const uint32_t position = start + static_cast<uint32_t>(i) + 1;
    auto logprobs = JudgePromptRow(settings, sequence.HistoryOf(settings, position),
                                   logits.row(first_row + static_cast<int>(i)), position,
                                   part.prompt_targets[i], vocabulary_size);
    if (!logprobs.ok()) {
      result.status = logprobs.status();
      return;
    }
    result.prompt_logprobs.push_back(*std::move(logprobs));
  }
  if (part.block == nullptr) return;
  const uint32_t committed = part.committed();
  const int block_row = first_row + static_cast<int>(committed - 1 - start) - FirstLogitsRow(part);
  auto judgement =
      JudgeRows(judge_, settings, *part.block, committed, sequence.HistoryOf(settings, committed),
                logits, block_row, vocabulary_size);
  if (!judgement.ok()) {
    result.status = judgement.status();
    return;
  }
  result.entries = std::move(judgement->entries);
  result.logprobs = std::move(judgement->logprobs);
}

absl::StatusOr<ProbedPass> CpuEngine::Probe(int rows) {
  TANDEM_CHECK(launched_.empty()) << "a pass is in flight";
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
  const concurrency::Instant began = clock_.Now();
  TANDEM_RETURN_IF_ERROR(model_->Forward(parts).status());
  probed.computed = clock_.Now() - began;
  return probed;
}

}  // namespace tandem::target_service
