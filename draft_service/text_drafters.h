// The drafters that a service offers, as flags ask for them: for tandem-draft and `tandem serve`.
//
// Thread safety: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/flags/flag_set.h"
#include "draft_service/drafters/cascade.h"
#include "draft_service/drafters/drafter.h"
#include "draft_service/drafters/model_drafter.h"
#include "draft_service/serving/options.h"
#include "model/language_model.h"

namespace tandem::tokenizer {
class Tokenizer;
}

namespace tandem::draft_service {

// Those without a model.
struct TextDrafterOptions {
  int ngram_query = 1;         // of context-ngram
  std::string ngram_corpus;    // a text file; empty: no drafter of a corpus
  uint32_t recall_tokens = 0;  // of recall; 0: it is not there
  std::string ngrams;          // a file of `tandem derive-ngrams`; empty: no drafter of it

  void AddTo(flags::FlagSet& flags);
  // Of TextDrafters::drafters, in that order.
  std::vector<std::string> Names() const;
};

struct TextDrafters {
  std::vector<DrafterFactory> drafters;
  CascadeOptions guesses;  // what they know, for a model above them
};

// What is read and counted is told in the log. Errors name the flag and the file. Where both are
// there, `mixed` takes the model's n-grams before the corpus's, and so does what guesses.
absl::StatusOr<TextDrafters> MakeTextDrafters(const TextDrafterOptions& options,
                                              const tokenizer::Tokenizer& tokenizer);

// The drafters of `model` (null: none), then `text`, and what `options` say of the model. Of
// `model_drafter` the vocabulary's size is set here: what the tokenizer (options.vocabulary_size)
// and the model have both.
void AddDrafters(model::LanguageModel* model, ModelDrafterOptions model_drafter, TextDrafters text,
                 Options& options);

}  // namespace tandem::draft_service
