// Asks a model for its n-grams (derived_ngrams.h): for each token x of the vocabulary
//
//   bigrams       p(. | beginning x), the `successors` likeliest tokens, with their probabilities
//   continuation  for each successor y of them, what the model writes most likely after
//                 beginning x y, greedily
//
// `beginning` is what stands before any text (a beginning-of-text token, or nothing). Many tokens at
// a time: a pass has a row of each.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "draft_service/ngrams/derived_ngrams.h"
#include "model/language_model.h"

namespace tandem::draft_service {

struct DerivationOptions {
  std::vector<uint32_t> beginning;
  // Called after each batch, when `done` has grown. Its error ends the derivation. May be empty.
  std::function<absl::Status()> after_batch;
};

// From derived.done to the last token. The result does not depend on where it was interrupted, since a
// row's logits do not depend on its batch. RESOURCE_EXHAUSTED: the model has no room for one
// sequence. INTERNAL: its logits hold a NaN. Errors of the model.
absl::Status DeriveTokens(model::LanguageModel& model, const DerivationOptions& options,
                          DerivedNgrams& derived);

// The `count` largest of exp(-distance), as weights. `distances`: one a token, finite.
std::vector<Successor> NearestTokens(absl::Span<const double> distances, uint32_t count);

}  // namespace tandem::draft_service
