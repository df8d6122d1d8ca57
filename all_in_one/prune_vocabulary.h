// `tandem-model prune-vocabulary`: writes a draft model whose output has the commonest tokens of a
// corpus alone (model/pruned_output.h).
//
// Thread safety: plain values; PruneVocabulary is used by one thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/flags/flag_set.h"

namespace tandem::all_in_one {

struct PruneVocabularyOptions {
  std::string model;   // a directory, or a name of the hub
  std::string corpus;  // a text file
  std::string out;     // the directory to write
  uint32_t keep = 32768;

  void AddTo(flags::FlagSet& flags);
  absl::Status Validate() const;  // INVALID_ARGUMENT names a bad flag. Looks at no file.
};

// Progress goes to standard error. Special tokens and those that end a text are kept in any case.
// Of tokens that are equally common the lowest ids are kept, also of those that the corpus has not.
absl::Status PruneVocabulary(PruneVocabularyOptions options);

}  // namespace tandem::all_in_one
