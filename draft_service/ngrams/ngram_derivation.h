// Asks a model for its n-grams (derived_ngrams.h): for each token x of the vocabulary
//
//   bigrams       the `successors` likeliest tokens after x, with their probabilities: the
//                 normalised geometric mean of p(. | context x) over the contexts, which is the
//                 softmax of the mean of their logits
//   continuation  for each successor y of them, what the model writes most likely after
//                 beginning x y, greedily
//
// Several contexts, since many a model has learned nothing of a text that begins with x: it says
// the same after every x there (docs/ngrams.md has what the mean is worth). A batch of tokens are
// siblings of one tree per context, so the keys and values of a batch take a few pages, and not
// pages of their own for each token.
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
  // What stands before any text: a beginning-of-text token, or nothing.
  std::vector<uint32_t> beginning;
  // What stands before x, one after the other, the beginning included: at least one, possibly
  // empty. Each is shorter than the model's max_rows(), and there are fewer of them than that.
  std::vector<std::vector<uint32_t>> contexts;
  // Called after each batch, when `done` has grown. Its error ends the derivation. May be empty.
  std::function<absl::Status()> after_batch;
};

// The room for keys and values, in tokens, with which a model of `max_rows` derives at full speed
// (model::LoadOptions::pool_tokens). Less makes batches smaller and changes no result.
int64_t DerivationRoom(const DerivationOptions& options, uint32_t continuation, int max_rows);

// From derived.done to the last token. The result does not depend on where it was interrupted,
// since a row's logits do not depend on its batch. INVALID_ARGUMENT: the model's context is too
// short. RESOURCE_EXHAUSTED: it has no room for a batch of one token. INTERNAL: its logits hold a
// NaN. Errors of the model.
absl::Status DeriveTokens(model::LanguageModel& model, const DerivationOptions& options,
                          DerivedNgrams& derived);

// The `count` largest of exp(-distance), as weights. `distances`: one per token, finite.
std::vector<Successor> NearestTokens(absl::Span<const double> distances, uint32_t count);

}  // namespace tandem::draft_service
