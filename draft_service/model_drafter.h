// Drafts with a small language model, token by token.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "draft_service/drafter.h"
#include "model/language_model.h"

namespace tandem::draft_service {

enum class Proposal {
  // Draws each token from its own top-m, rounded to integer weights first, which it sends as q.
  // Greedy at temperature 0.
  kSampled,
  // Its most likely token, as a one-hot q: exact under every rule, with fewer accepted at high
  // temperatures as a rule, and more for a target that is surer than its draft.
  kGreedy,
};

// "sampled" or "greedy"; INVALID_ARGUMENT names the two.
absl::StatusOr<Proposal> ParseProposal(absl::string_view text);

struct ModelDrafterOptions {
  std::string name = "model";
  Proposal proposal = Proposal::kSampled;
  int top_m = 64;                // entries of q; 1 to sampling::kMostSparseEntries
  uint32_t vocabulary_size = 0;  // ids below it are proposed; 0 = the model's

  absl::Status Validate() const;
};

// `model` must outlive the factory and its drafters; it is used on the drafting thread alone. A
// sequence longer than the model's context is no error: nothing is proposed past its end.
DrafterFactory ModelDrafterFactory(model::LanguageModel& model, ModelDrafterOptions options);

}  // namespace tandem::draft_service
