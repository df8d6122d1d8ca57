// Unigrams and bigrams of a corpus (Leviathan et al. 2023, arXiv 2211.17192, §4.2): which tokens
// are most frequent in a text, and which follow a token most often.
//
// Thread safety: immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "draft_service/ngrams/ngram_counter.h"
#include "draft_service/ngrams/successor_table.h"

namespace tandem::tokenizer {
class Tokenizer;
}

namespace tandem::draft_service {

// After any token the commonest ones.
std::shared_ptr<const SuccessorTable> UnigramTable(const NgramCounter& counted);

// After a token what followed it most often; where nothing did, what `otherwise` says (back-off).
// It holds max_bigrams successors at most, 8 bytes each.
std::shared_ptr<const SuccessorTable> BigramTable(const NgramCounter& counted,
                                                  std::shared_ptr<const SuccessorTable> otherwise);

struct CorpusOptions {
  // Pairs that are counted at once, some 40 bytes each meanwhile; the rarest are dropped for
  // others.
  size_t max_bigrams = size_t{1} << 20;
  // Tokens from this one on are not counted; 0: the tokenizer's size.
  uint32_t vocabulary_size = 0;
  // Called now and then with (bytes read, of how many). May be empty.
  std::function<void(uint64_t, uint64_t)> progress;
};

// Counts a text file of any size. Special tokens that are spelled out in it are tokens. NOT_FOUND:
// there is no such file. INVALID_ARGUMENT: it is not a regular file, it is empty, or it is not
// UTF-8, with the place. The message names the file.
absl::StatusOr<NgramCounter> CountCorpus(const std::string& path,
                                         const tokenizer::Tokenizer& tokenizer,
                                         const CorpusOptions& options = {});

}  // namespace tandem::draft_service
