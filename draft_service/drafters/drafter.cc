#include "draft_service/drafters/drafter.h"

#include "common/base/status_macros.h"

namespace tandem::draft_service {

absl::StatusOr<CandidateTree> ForwardDrafter::Propose(uint32_t max_draft_tokens) {
  BeginBlock({.max_draft_tokens = max_draft_tokens});
  return RunPasses();
}

absl::StatusOr<CandidateTree> ForwardDrafter::ProposeTree(const BlockShape& shape) {
  BeginBlock(shape);
  return RunPasses();
}

absl::StatusOr<CandidateTree> ForwardDrafter::RunPasses() {
  while (wanted().total() > 0) {
    const model::ForwardPart part = NextPart(model().max_rows());
    TANDEM_ASSIGN_OR_RETURN(const model::Logits logits, model().Forward({&part, 1}));
    TANDEM_RETURN_IF_ERROR(
        ReadLogits({logits.data, static_cast<size_t>(logits.rows) *
                                     static_cast<size_t>(logits.vocabulary_size)}));
  }
  return EndBlock();
}

}  // namespace tandem::draft_service
