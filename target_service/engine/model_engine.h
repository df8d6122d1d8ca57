// What engines over a LanguageModel have in common: sequences, their room, and what a pass is to
// the model. How rows are judged is what they differ in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/sampling/token_history.h"
#include "model/language_model.h"
#include "target_service/engine/engine.h"

namespace tandem::target_service {

class ModelSequence final : public EngineSequence {
 public:
  explicit ModelSequence(std::unique_ptr<model::Cache> cache) : cache_(std::move(cache)) {}

  int max_length() const override { return cache_->max_length(); }
  int shared() const override { return cache_->shared(); }
  model::Cache* cache() { return cache_.get(); }

  // It holds nothing yet; the cache has begun with these.
  void Begin(absl::Span<const uint32_t> tokens) { tokens_.assign(tokens.begin(), tokens.end()); }

  // The first `start` tokens stay; `tokens` come after them.
  void Take(int start, absl::Span<const uint32_t> tokens);

  // After a pass whose part ended with a tree of `candidates` tokens: of these the nodes of `path`
  // stay, in their order.
  void KeepPath(size_t candidates, absl::Span<const uint32_t> path);

  // The first `size` tokens, where something looks back at them; else null. `size` does not fall
  // between two calls of Take.
  sampling::TokenHistory* HistoryOf(const speculation::SequenceSettings& settings, size_t size);

 private:
  const std::unique_ptr<model::Cache> cache_;
  std::vector<uint32_t> tokens_;  // those in the cache, draft tokens too
  size_t last_part_ = 0;          // how many of them came last
  // The first ones of these, never a draft token of the last part; it follows when it is asked for.
  std::optional<sampling::TokenHistory> history_;
};

// A pass as the model takes it.
struct ModelPass {
  std::vector<model::ForwardPart> forward;  // one a part
  std::vector<std::vector<int>> parents;    // one a part; not empty where its block is a tree
  // Of each part, among the rows that have logits: the first, and that of the last committed token.
  std::vector<int> first_rows;
  std::vector<int> block_rows;
};

// Thread safety: as Engine.
class ModelEngine : public Engine {
 public:
  const EngineInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<EngineSequence>> Open(int max_length) override;
  int Recall(EngineSequence& sequence, const model::CachePrefix& prefix) override;
  void Share(EngineSequence& sequence, const model::CachePrefix& prefix) override;
  std::optional<int64_t> free_tokens() const override;
  absl::Status DeviceStatus() override { return model_->DeviceStatus(); }
  absl::StatusOr<ProbedPass> Probe(int rows) override;

  // Before it is used. How rows are judged becomes a part of numerics_id; `switched_off` is
  // EngineInfo's.
  void NamePaths(const std::string& judge, const std::vector<std::string>& switched_off);

 protected:
  // `vocabulary_size`: ids below it are tokens; 0: the model's. It was checked.
  ModelEngine(std::unique_ptr<model::LanguageModel> model, uint32_t vocabulary_size);

  // INVALID_ARGUMENT: vocabulary_size is above the model's.
  static absl::Status CheckVocabulary(uint32_t vocabulary_size, const model::LanguageModel& model);

  // Has the sequences take their tokens.
  static ModelPass Take(absl::Span<const PassPart> parts);

  // Of a tree that was judged: result.path, and the sequence holds that path alone from then on.
  static void KeepPath(const PassPart& part, PartResult& result);

  // What a pass of these parts takes, all of whose rows have logits.
  virtual absl::StatusOr<absl::Duration> TimePass(absl::Span<const model::ForwardPart> parts) = 0;
  virtual bool in_flight() const = 0;

  model::LanguageModel& model() { return *model_; }
  const model::LanguageModel& model() const { return *model_; }
  EngineInfo& mutable_info() { return info_; }

 private:
  const std::unique_ptr<model::LanguageModel> model_;
  EngineInfo info_;
};

// The engine's own.
ModelSequence& SequenceOf(const PassPart& part);

}  // namespace tandem::target_service
