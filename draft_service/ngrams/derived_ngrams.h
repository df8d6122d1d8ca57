// The n-grams that a model was asked for once (Stewart et al. 2024, "The N-Grammys", arXiv
// 2411.03786, §4.1), as a file that drafters read: `tandem derive-ngrams` makes it
// (all_in_one/derive_ngrams.h), `tandem-draft --ngrams` serves from it.
//
// All numbers are little-endian and of 32 bits, unless it says otherwise:
//
//   header        NgramFileHeader
//   unigrams      [unigrams] (token, weight)                   what the model says without context
//   bigrams       [vocabulary][successors] (token, weight)     what may follow each token
//   continuations [vocabulary][successors][continuation] token what the model writes after both
//
// Successors stand by falling weight, ties by the lower id.
//
// Thread safety: plain values; one thread for the functions of one path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/output_file.h"
#include "draft_service/ngrams/successor_table.h"

namespace tandem::draft_service {

// What a file holds, and of what. Two files of equal shapes of one model are equal.
struct NgramShape {
  static constexpr uint32_t kMaxContinuation = 16;
  static constexpr uint32_t kMaxVocabulary = 1 << 24;

  std::string model_id;          // 1 to 127 bytes
  std::string tokenizer_id;      // 1 to 127 bytes
  uint32_t vocabulary_size = 0;  // 1 to kMaxVocabulary
  uint32_t successors = 0;       // 1 to SuccessorTable::kMaxSuccessors, at most the vocabulary
  uint32_t continuation = 0;     // 0 to kMaxContinuation
  uint32_t unigrams = 0;         // as successors

  absl::Status Validate() const;  // INVALID_ARGUMENT naming each bad value
  uint64_t FileBytes() const;
  bool operator==(const NgramShape&) const = default;
};

// What a file holds, or will hold.
struct DerivedNgrams {
  explicit DerivedNgrams(const NgramShape& shape);  // nothing is done yet

  NgramShape shape;
  uint32_t done = 0;                    // tokens that the model was asked for, from 0 on
  std::vector<Successor> unigrams;      // [unigrams]
  std::vector<Successor> bigrams;       // [vocabulary][successors]
  std::vector<uint32_t> continuations;  // [vocabulary][successors][continuation]
};

// A file that is whole. NOT_FOUND: there is none. INVALID_ARGUMENT: it is not a file of n-grams, or
// one of another version. DATA_LOSS: it is shorter or longer than its header says, or its content
// is not what was written. FAILED_PRECONDITION: it is of another tokenizer. Each names the file,
// what was found and what was expected.
absl::StatusOr<std::shared_ptr<const DerivedNgrams>> ReadNgrams(const std::string& path,
                                                                absl::string_view tokenizer_id);

// After(token) of an id that the file does not know is empty, but for unigrams, which are alike
// after all ids.
std::shared_ptr<const SuccessorTable> UnigramTable(const DerivedNgrams& derived);
std::shared_ptr<const SuccessorTable> BigramTable(std::shared_ptr<const DerivedNgrams> derived);
// The same successors with their continuations.
std::shared_ptr<const SuccessorTable> ExtendedTable(std::shared_ptr<const DerivedNgrams> derived);

// What PATH.partial has, where it is a part of this shape; else nothing is done yet. `existing`:
// what becomes of a file at PATH (base/output_file.h, which has the errors, too).
// FAILED_PRECONDITION: PATH.partial is something else.
absl::StatusOr<DerivedNgrams> BeginNgrams(const std::string& path, const NgramShape& shape,
                                          base::Existing existing);

// Writes all that is done: into PATH.partial, or, once that is every token, into PATH. Either file
// is replaced as a whole, so that an interruption leaves the one before.
absl::Status SaveNgrams(const DerivedNgrams& derived, const std::string& path,
                        base::Existing existing);

}  // namespace tandem::draft_service
