// A drafter with a model that does something before each of its blocks goes out: takes its time,
// say.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "common/base/check.h"
#include "draft_service/drafters/drafter.h"

namespace tandem::draft_service {

// Threads as Drafter.
class SlowDrafter final : public ForwardDrafter {
 public:
  // `inner` is a ForwardDrafter.
  SlowDrafter(std::unique_ptr<Drafter> inner, std::function<void()> before_answer)
      : inner_(std::move(inner)),
        forward_drafter_(inner_->forward_drafter()),
        before_answer_(std::move(before_answer)) {
    TANDEM_CHECK(forward_drafter_ != nullptr);
  }

  absl::Status Accept(uint32_t keep, absl::Span<const uint32_t> tokens) override {
    return inner_->Accept(keep, tokens);
  }
  model::LanguageModel& model() override { return forward_drafter_->model(); }
  void BeginBlock(const BlockShape& shape) override { forward_drafter_->BeginBlock(shape); }
  Wanted wanted() const override { return forward_drafter_->wanted(); }
  model::ForwardPart NextPart(int max_rows) override {
    return forward_drafter_->NextPart(max_rows);
  }
  absl::Status ReadLogits(absl::Span<const float> logits) override {
    return forward_drafter_->ReadLogits(logits);
  }
  CandidateTree EndBlock() override {
    before_answer_();
    return forward_drafter_->EndBlock();
  }

 private:
  const std::unique_ptr<Drafter> inner_;
  ForwardDrafter* const forward_drafter_;
  const std::function<void()> before_answer_;
};

inline DrafterFactory SlowDrafterFactory(DrafterFactory inner,
                                         std::function<void()> before_answer) {
  auto make = [make_inner = inner.make, before_answer](
                  const speculation::SequenceSettings& settings,
                  Proposal proposal) -> absl::StatusOr<std::unique_ptr<Drafter>> {
    auto drafter = make_inner(settings, proposal);
    if (!drafter.ok()) return drafter;
    return std::make_unique<SlowDrafter>(*std::move(drafter), before_answer);
  };
  return {inner.name, std::move(make), inner.samples};
}

}  // namespace tandem::draft_service
