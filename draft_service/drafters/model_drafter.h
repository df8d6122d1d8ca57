// Drafts with a small language model, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "draft_service/drafters/drafter.h"
#include "draft_service/drafters/guesses.h"
#include "model/language_model.h"

namespace tandem::draft_service {

// "sampled" or "greedy"; INVALID_ARGUMENT names the two.
absl::StatusOr<Proposal> ParseProposal(absl::string_view text);

struct ModelDrafterOptions {
  std::string name = "model";
  Proposal proposal = Proposal::kSampled;  // of sequences that say kDefault; not kDefault
  int top_m = 64;                          // entries of q; 1 to sampling::kMaxSparseEntries
  uint32_t vocabulary_size = 0;            // ids below it are proposed; 0 = the model's
  uint8_t guess_level = 1;                 // as CandidateDraw::Guess's; where something guesses

  absl::Status Validate() const;
};

// `model` must outlive the factory and its drafters; it is used on the drafting thread alone. A
// sequence longer than the model's context is not an error: nothing is proposed past its end.
// Sequences of one cache_scope that begin alike share what the model shares (LanguageModel::Share);
// their blocks are the same as without. How a draft token is drawn: candidate_draw.h.
//
// `guesses`: what guesses for a sequence with this proposal (not kDefault), so that a pass may give
// several tokens (cascade.h); such a drafter makes no trees. Empty: nothing does.
DrafterFactory ModelDrafterFactory(
    model::LanguageModel& model, ModelDrafterOptions options,
    std::function<absl::StatusOr<std::unique_ptr<Guesses>>(
        const speculation::SequenceSettings& settings, Proposal proposal)>
        guesses = {});

}  // namespace tandem::draft_service
