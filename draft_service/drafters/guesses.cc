#include "draft_service/drafters/guesses.h"

#include <algorithm>

#include "common/base/status_macros.h"

namespace tandem::draft_service {

absl::Status Guesses::Accept(uint32_t keep, absl::Span<const uint32_t> tokens) {
  if (rest_.has_value()) rest_->Accept(keep, tokens);
  told_.clear();
  committed_ = keep + static_cast<uint32_t>(tokens.size());
  return context_->Accept(keep, tokens);
}

absl::StatusOr<CandidateTree> Guesses::After(absl::Span<const uint32_t> drawn, uint32_t max) {
  const auto common = std::mismatch(told_.begin(), told_.end(), drawn.begin(), drawn.end()).first;
  const auto same = static_cast<uint32_t>(common - told_.begin());
  if (same < told_.size() || same < drawn.size()) {
    TANDEM_RETURN_IF_ERROR(context_->Accept(committed_ + same, drawn.subspan(same)));
    told_.assign(drawn.begin(), drawn.end());
  }
  TANDEM_ASSIGN_OR_RETURN(CandidateTree guesses, context_->Propose(max));
  if (!rest_.has_value()) return guesses;
  // The table's keys say how far a token is behind the committed ones.
  guesses.tokens.insert(guesses.tokens.begin(), drawn.begin(), drawn.end());
  rest_->Extend(static_cast<uint32_t>(drawn.size()) + max, guesses);
  guesses.DropFirst(drawn.size());
  return guesses;
}

}  // namespace tandem::draft_service
