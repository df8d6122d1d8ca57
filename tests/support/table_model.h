// A LanguageModel for tests: the next token's logits are a hash of the last two tokens. No
// LibTorch, no floating-point surprises, and a test can enumerate its distributions exactly (Logits
// below).
//
// Its caches really store tokens and really roll back, so a caller that feeds wrong tokens gets
// wrong logits; breaking the contract of language_model.h aborts with a message.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "model/language_model.h"

namespace tandem::testing {

struct TableModelOptions {
  uint32_t vocabulary_size = 8;  // 2 to 65536
  uint64_t seed = 1;             // two models of one seed are the same up to their noise
  double peakedness = 1;         // standard deviation of the logits; 0: uniform
  double noise = 0;         // standard deviation of what noise_seed adds: a draft is its target
  uint64_t noise_seed = 0;  // with some noise
  uint32_t context_length = 256;
  std::vector<uint32_t> eos_token_ids;
  int max_rows = 512;     // of one pass
  int max_caches = 1024;  // alive at once; one more is RESOURCE_EXHAUSTED
  // That all caches have room for together; one that does not fit is RESOURCE_EXHAUSTED. 0: any.
  int64_t pool_tokens = 0;
  int page_tokens = 1;   // a cache reserves whole pages of so many
  std::string model_id;  // empty: made of seed, noise and vocabulary
  // Called at the start of each valid Step, on the stepping thread; may block (a test holds the
  // device) or return an error, which Step then returns with nothing changed.
  std::function<absl::Status(absl::Span<const model::ForwardPart>)> before_pass;
  std::function<absl::Status()> device_status;  // empty: it works
  // Called by DropPages.
  std::function<void()> drop_pages;
};

class TableModel final : public model::LanguageModel {
 public:
  explicit TableModel(TableModelOptions options);
  ~TableModel() override;

  const model::ModelInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<model::Cache>> NewCache(int max_length) override;
  std::optional<model::CacheRoom> room() const override;
  // What was shared is known for ever; it costs no room.
  int Recall(model::Cache& cache, const model::CachePrefix& prefix) override;
  void Share(model::Cache& cache, const model::CachePrefix& prefix) override;
  absl::StatusOr<model::Logits> Forward(absl::Span<const model::ForwardPart> parts) override;
  int max_rows() const override { return options_.max_rows; }
  absl::Status DeviceStatus() override {
    return options_.device_status ? options_.device_status() : absl::OkStatus();
  }
  void DropPages() override {
    if (options_.drop_pages) options_.drop_pages();
  }

  // The logits that follow `context`, as a Step gives them; only its last two tokens count. Pure.
  std::vector<float> LogitsAfter(absl::Span<const uint32_t> context) const;

  // What was done so far; thread-safe.
  int64_t passes() const { return passes_; }
  int64_t rows() const { return rows_; }                // tokens that were computed
  int64_t logits_rows() const { return logits_rows_; }  // of these, rows with logits
  int live_caches() const { return *live_caches_; }
  int64_t reserved_tokens() const { return *reserved_; }  // by live caches

 private:
  absl::Status Validate(absl::Span<const model::ForwardPart> parts) const;

  const TableModelOptions options_;
  model::ModelInfo info_;
  std::vector<std::pair<std::string, std::vector<uint32_t>>> shared_;  // scope, tokens
  std::unique_ptr<float[]>
      logits_;  // of the last pass; a new one each time, so that ASan sees a late read
  std::atomic<bool> in_pass_{false};
  std::atomic<int64_t> passes_{0};
  std::atomic<int64_t> rows_{0};
  std::atomic<int64_t> logits_rows_{0};
  std::shared_ptr<std::atomic<int>>
      live_caches_;  // shared with the caches, which may outlive the model
  std::shared_ptr<std::atomic<int64_t>> reserved_;
};

}  // namespace tandem::testing
