// A model whose Step takes a set time, as that of a device would beside which the processor is
// free: a test sees the scheduling then, and not how many cores the machine has.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "model/language_model.h"

namespace tandem::testing {

struct PassCost {
  absl::Duration pass;  // of a pass by itself
  absl::Duration row;   // and for each of its rows

  absl::Duration operator()(int rows) const { return pass + row * rows; }
};

// Steps `inner`, then sleeps for what is left of the time. Threads as LanguageModel says.
class TimedModel final : public model::LanguageModel {
 public:
  TimedModel(std::unique_ptr<model::LanguageModel> inner,
             std::function<absl::Duration(int rows)> cost)
      : inner_(std::move(inner)), cost_(std::move(cost)) {}

  const model::ModelInfo& info() const override { return inner_->info(); }
  absl::StatusOr<std::unique_ptr<model::Cache>> NewCache(int max_length) override {
    return inner_->NewCache(max_length);
  }
  std::optional<model::CacheRoom> room() const override { return inner_->room(); }
  absl::StatusOr<model::Logits> Forward(absl::Span<const model::ForwardPart> parts) override {
    const absl::Time began = absl::Now();
    int rows = 0;
    for (const model::ForwardPart& part : parts) rows += static_cast<int>(part.tokens.size());
    auto logits = inner_->Forward(parts);
    absl::SleepFor(began + cost_(rows) - absl::Now());
    return logits;
  }
  int max_rows() const override { return inner_->max_rows(); }

 private:
  const std::unique_ptr<model::LanguageModel> inner_;
  const std::function<absl::Duration(int rows)> cost_;
};

}  // namespace tandem::testing
