// What n-grams guess: first what the context n-gram proposes (context_ngram.h), and where that
// ends, the successors of a table (successor_drafter.h), if there is one, as mixed.h proposes them.
// For a model that checks them (cascade.h).
//
// Thread safety: as drafter.h says.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "draft_service/drafters/drafter.h"
#include "draft_service/drafters/successor_drafter.h"

namespace tandem::draft_service {

class Guesses {
 public:
  // `context`: one-hot, a function of its text alone.
  Guesses(std::unique_ptr<Drafter> context, std::optional<SuccessorChain> rest)
      : context_(std::move(context)), rest_(std::move(rest)) {}

  // As Drafter::Accept.
  absl::Status Accept(uint32_t keep, absl::Span<const uint32_t> tokens);

  // At most `max` (at least 1) tokens to follow the committed ones and the `drawn` ones of the
  // block so far. What is drawn has its q, as in a block. A guess for a position is drawn with the
  // same number however often it is asked for until the next Accept: who asks again has not looked
  // at the guesses behind the first one that was wrong.
  absl::StatusOr<CandidateTree> After(absl::Span<const uint32_t> drawn, uint32_t max);

 private:
  const std::unique_ptr<Drafter> context_;
  std::optional<SuccessorChain> rest_;
  uint32_t committed_ = 0;
  std::vector<uint32_t> told_;  // to context_, beyond the committed ones
};

}  // namespace tandem::draft_service
