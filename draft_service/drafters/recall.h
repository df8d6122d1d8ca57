// Drafts by looking the last tokens up in what earlier requests of the same cache scope were
// answered: what followed them there is proposed. Where no earlier answer has them, it looks in the
// text itself, as prompt lookup does. For a scope whose answers repeat each other: agents, tables,
// the same question again.
//
// A sequence's output is remembered when it ends, if it has a scope; of all sequences together the
// latest `max_tokens` tokens. Nothing crosses scopes.
//
// One-hot. Under greedy and coupled that is exact for any draft. Under the other rules a draft must
// not know the numbers that its tokens are judged with, and an earlier answer to a request of the
// same seed has been made with them: dropping what was rejected before would shift the text. So
// there a sequence is not drafted from texts of its own seed and sample index
// (tests/draft_service/drafters/ngram_law_test.cc has the control).
#pragma once

#include <cstddef>
#include <string>

#include "draft_service/drafters/drafter.h"

namespace tandem::draft_service {

struct RecallOptions {
  std::string name = "recall";
  size_t max_tokens = 0;  // at least 1
  // For tests: remembers and takes texts whatever their seeds.
  bool ignore_seeds = false;
};

DrafterFactory RecallFactory(RecallOptions options);

}  // namespace tandem::draft_service
