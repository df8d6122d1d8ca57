// A LanguageModel whose passes LibTorch computes (library/interface.h). Caches, the checks of a
// pass, and where each row stands and looks are those of the CPU's decoder; so chains, trees,
// roll-back and their errors are the same.
//
// Row invariance: as LanguageModel says, for a given tile, type and number of threads. They are in
// numerics_id.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "model/language_model.h"
#include "model/page_store.h"
#include "model/pass_layout.h"
#include "model/prefix_cache.h"
#include "torch/library/interface.h"

namespace tandem::torch {

// Thread safety and errors: as LanguageModel says. Forward: INTERNAL where the device failed.
class TorchModel final : public model::LanguageModel {
 public:
  // `step` was made for as many rows and pages. `info` is whole: sizes and numerics_id too.
  TorchModel(std::unique_ptr<Step> step, int max_rows, int pages, model::ModelInfo info);

  const model::ModelInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<model::Cache>> NewCache(int max_length) override;
  std::optional<model::CacheRoom> room() const override { return prefixes_.room(); }
  int Recall(model::Cache& cache, const model::CachePrefix& prefix) override {
    return prefixes_.Recall(cache, prefix);
  }
  void Share(model::Cache& cache, const model::CachePrefix& prefix) override {
    prefixes_.Share(cache, prefix);
  }
  absl::StatusOr<model::Logits> Forward(absl::Span<const model::ForwardPart> parts) override;
  absl::Status DeviceStatus() override { return step_->DeviceStatus(); }
  int max_rows() const override { return max_rows_; }

  // As Forward, but the logits stay where the device has them: Step::logits(), in the same order.
  absl::Status Compute(absl::Span<const model::ForwardPart> parts);
  const Step& step() const { return *step_; }

  // Faster ways of computing that failed here: "spans-graphs". Before it is used.
  void SetSwitchedOff(std::vector<std::string> paths) { switched_off_ = std::move(paths); }
  const std::vector<std::string>& switched_off() const { return switched_off_; }

 private:
  // The pages of the step's cache. Caches hold it, and may outlive the model, but not copy then.
  class Pages final : public model::PageStore {
   public:
    Pages(std::shared_ptr<Step> step, int pages) : PageStore(pages), step_(std::move(step)) {}

    // Waits for MoveCells.
    void Copy(const uint32_t* pages, int from, int to) override;
    // What all sequences keep of their trees, before the pass that reads it. An error stays.
    absl::Status MoveCells();

   private:
    const std::shared_ptr<Step> step_;
    std::vector<CellMove> moves_;
    absl::Status status_;
  };

  const std::shared_ptr<Step> step_;
  const std::shared_ptr<Pages> pages_;
  model::PrefixCache prefixes_;
  const int max_rows_;
  const model::ModelInfo info_;
  std::vector<std::string> switched_off_;
  uint64_t passes_ = 0;

  // Of the pass under way.
  model::PassLayout layout_;
  std::vector<Row> rows_;
  std::vector<float> logits_;
};

}  // namespace tandem::torch
