#include "draft_service/drafters/lookup_first.h"

#include <memory>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace tandem::draft_service {
namespace {

class LookupFirst final : public ForwardDrafter {
 public:
  // `model`: a ForwardDrafter.
  LookupFirst(std::unique_ptr<Drafter> lookup, std::unique_ptr<Drafter> model)
      : lookup_(std::move(lookup)), owned_(std::move(model)), model_(*owned_->forward_drafter()) {}

  absl::Status Accept(uint32_t keep, absl::Span<const uint32_t> tokens) override {
    found_ = CandidateTree();
    TANDEM_RETURN_IF_ERROR(lookup_->Accept(keep, tokens));
    return model_.Accept(keep, tokens);
  }

  Recalled TakeRecalled() override { return model_.TakeRecalled(); }
  model::LanguageModel& model() override { return model_.model(); }

  void BeginBlock(const BlockShape& shape) override {
    auto found = lookup_->Propose(shape.max_draft_tokens);
    TANDEM_CHECK_OK(found);
    found_ = *std::move(found);
    if (found_.empty()) model_.BeginBlock(shape);
  }

  Wanted wanted() const override { return found_.empty() ? model_.wanted() : Wanted{}; }
  model::ForwardPart NextPart(int max_rows) override { return model_.NextPart(max_rows); }
  absl::Status ReadLogits(absl::Span<const float> logits) override {
    return model_.ReadLogits(logits);
  }

  CandidateTree EndBlock() override {
    return found_.empty() ? model_.EndBlock() : std::exchange(found_, CandidateTree());
  }

 private:
  const std::unique_ptr<Drafter> lookup_;
  const std::unique_ptr<Drafter> owned_;
  ForwardDrafter& model_;  // owned_
  CandidateTree found_;    // the block that has begun; empty: it is the model's, or there is none
};

}  // namespace

DrafterFactory LookupFirstFactory(model::LanguageModel& model, ModelDrafterOptions options,
                                  PromptLookupOptions lookup) {
  return {kLookupFirst,
          [above = PromptLookupFactory(std::move(lookup)),
           below = ModelDrafterFactory(model, std::move(options))](
              const speculation::SequenceSettings& settings,
              Proposal proposal) -> absl::StatusOr<std::unique_ptr<Drafter>> {
            TANDEM_ASSIGN_OR_RETURN(auto found, above.make(settings, proposal));
            TANDEM_ASSIGN_OR_RETURN(auto computed, below.make(settings, proposal));
            return std::make_unique<LookupFirst>(std::move(found), std::move(computed));
          }};
}

}  // namespace tandem::draft_service
