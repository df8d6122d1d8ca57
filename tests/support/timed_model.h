// A model whose Step takes a set time, as that of a device would beside which the processor is
// free: a test sees the scheduling then, and not how many cores the machine has.
#pragma once

#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "model/language_model.h"

namespace tandem::testing {

struct StepCost {
  absl::Duration pass;  // of a Step by itself
  absl::Duration row;   // and for each of its rows
};

// Steps `inner`, then sleeps for what is left of the time. Threads as LanguageModel says.
class TimedModel final : public model::LanguageModel {
 public:
  TimedModel(std::unique_ptr<model::LanguageModel> inner, StepCost cost)
      : inner_(std::move(inner)), cost_(cost) {}

  const model::ModelInfo& info() const override { return inner_->info(); }
  absl::StatusOr<std::unique_ptr<model::Cache>> NewCache(int max_length) override {
    return inner_->NewCache(max_length);
  }
  absl::StatusOr<model::Logits> Step(absl::Span<const model::StepPart> parts) override {
    absl::Time end = absl::Now() + cost_.pass;
    for (const model::StepPart& part : parts) {
      end += cost_.row * static_cast<double>(part.tokens.size());
    }
    auto logits = inner_->Step(parts);
    absl::SleepFor(end - absl::Now());
    return logits;
  }
  int max_rows() const override { return inner_->max_rows(); }

 private:
  const std::unique_ptr<model::LanguageModel> inner_;
  const StepCost cost_;
};

}  // namespace tandem::testing
