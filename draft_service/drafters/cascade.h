// A cascade: the draft model, itself sped up by n-grams below it, as in the hierarchy of Leviathan
// et al. (2023, arXiv 2211.17192, §3.6 and §5). The n-grams guess the next tokens of the block, one
// pass of the model gives the logits behind each guess, and each token of the block is drawn in its
// turn from the model's q. As long as it is the one that was guessed, the next token needs no
// further pass.
//
//   rule of the block, proposal     a token of the block is
//   any, at temperature 0; greedy   the model's most likely one: that of the drafter `model`
//   coupled                         the model's race with the target's noise: that of `model`
//   speculative, block, lenient     of a guess found in the text: drawn from q with the number
//                                   that `model` has there, so it is that of `model`
//                                   of a guess that a table has drawn: accepted or replaced, so
//                                   that it follows q (CandidateDraw)
//
// So a block is, or is distributed as, what the model drafts alone, and the q that is sent is what
// the token was drawn from. A wrong guess costs a row of a pass and nothing else.
//
// The table's draws and the tests of its guesses have a level of their own (random::Uniform). If
// they used the numbers of the target's tests, a token that passes here would pass there too often,
// and the text would shift.
//
// The number of tokens from a pass depends on their values. So does the length of a block that is
// cut by time, which is exact all the same: every token that was drawn is in the block, and whether
// the next pass is made is decided before any of its tokens is drawn.
//
// Chains alone: a tree has no place for guesses below it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "draft_service/drafters/context_ngram.h"
#include "draft_service/drafters/drafter.h"
#include "draft_service/drafters/model_drafter.h"
#include "draft_service/ngrams/successor_table.h"

namespace tandem::draft_service {

struct CascadeOptions {
  static constexpr char kName[] = "cascade";

  ContextNgramOptions context;  // its name is not used
  std::shared_ptr<const SuccessorTable>
      table;  // what guesses where the text has none; null: nothing
  // Of the numbers below. Another one than 1 is for tests: they show that 0, which is the target's
  // own, shifts the text of a draft that has the target's seed.
  uint8_t level = 1;
};

// `model` and `options` as ModelDrafterFactory has them, but for the name.
DrafterFactory CascadeFactory(model::LanguageModel& model, ModelDrafterOptions options,
                              CascadeOptions below);

}  // namespace tandem::draft_service
