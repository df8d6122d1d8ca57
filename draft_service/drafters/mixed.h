// Drafts what the text itself says first, and what a table says after that: a block begins with
// what the context n-gram proposes (context_ngram.h), and where that ends, the successors of a
// table follow (successor_table.h), up to the block's full length. "Mixed strategies" of N-Grammys
// (Stewart et al. 2024, arXiv 2411.03786, §4.3), as a chain.
//
// As a tree it goes from the best node on (best_first.h). At each node the text's tokens have c /
// (n + 1), as for context_ngram.h, and the table's share the one that is left, as escapes do in
// prediction by partial matching (Cleary and Witten 1984). So the guesses of the text come first
// where it has many, and the table fills the rest of the tree.
//
// The first part is one-hot, and a function of the committed tokens alone. The second part is
// drawn, with its q, or one-hot, as successor_drafter.h says.
#pragma once

#include <memory>
#include <string>

#include "draft_service/drafters/context_ngram.h"
#include "draft_service/drafters/drafter.h"
#include "draft_service/ngrams/successor_table.h"

namespace tandem::draft_service {

struct MixedOptions {
  std::string name = "mixed";
  ContextNgramOptions context;  // its name is not used
};

DrafterFactory MixedFactory(MixedOptions options, std::shared_ptr<const SuccessorTable> table);

}  // namespace tandem::draft_service
