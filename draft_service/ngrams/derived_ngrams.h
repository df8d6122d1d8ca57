// The n-grams that a model was asked for once (Stewart et al. 2024, "The N-Grammys", arXiv
// 2411.03786, §4.1), as a file that drafters read: `tandem derive-ngrams` makes it
// (all_in_one/derive_ngrams.h), `tandem-draft --ngrams` serves from it.
//
// The file is mapped, so all processes of a machine share its memory. All numbers are little-endian
// and of 32 bits, unless it says otherwise:
//
//   header        NgramFileHeader
//   unigrams      [unigrams] (token, weight)                    what the model says without a context
//   bigrams       [vocabulary][successors] (token, weight)      what may follow each token
//   continuations [vocabulary][successors][continuation] token  what the model writes after both
//
// Successors stand by falling weight, ties by the lower id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

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

// Thread safety: immutable. Nobody may write into the file while it lives; replacing it is fine.
class DerivedNgrams {
 public:
  // NOT_FOUND: the file cannot be opened. INVALID_ARGUMENT: it is no file of n-grams, or one of
  // another version. DATA_LOSS: it is shorter or longer than its header says, or its content is not
  // what was written. FAILED_PRECONDITION: it is of another tokenizer. Each names the file, what was
  // found and what was expected. Everything is checked, so this reads the whole file.
  static absl::StatusOr<std::shared_ptr<const DerivedNgrams>> Open(const std::string& path,
                                                                   absl::string_view tokenizer_id);
  ~DerivedNgrams();
  DerivedNgrams(const DerivedNgrams&) = delete;
  DerivedNgrams& operator=(const DerivedNgrams&) = delete;

  const NgramShape& shape() const { return shape_; }
  absl::Span<const Successor> unigrams() const;
  absl::Span<const Successor> bigrams(uint32_t token) const;  // below the vocabulary's size
  absl::Span<const uint32_t> continuation(uint32_t token, size_t rank) const;

 private:
  DerivedNgrams() = default;
  absl::Status Check(absl::string_view tokenizer_id);
  absl::Status CheckTokens() const;

  NgramShape shape_;
  const char* data_ = nullptr;
  size_t size_ = 0;
};

// The tables keep the file. After(token) of an id that the file does not know is empty, but for
// unigrams, which are alike after all ids.
std::shared_ptr<const SuccessorTable> UnigramTable(std::shared_ptr<const DerivedNgrams> file);
std::shared_ptr<const SuccessorTable> BigramTable(std::shared_ptr<const DerivedNgrams> file);
// The same successors with their continuations.
std::shared_ptr<const SuccessorTable> ExtendedTable(std::shared_ptr<const DerivedNgrams> file);

// Writes such a file token by token. It grows as PATH.partial, keeps what is done if the process
// ends, and takes its name when it is whole.
//
// Not thread-safe. Errors name the file: RESOURCE_EXHAUSTED (no room), UNAVAILABLE (another process
// writes it), FAILED_PRECONDITION and others (what the system says).
class NgramFileWriter {
 public:
  // What is in PATH.partial counts if it is of this shape; else it is begun anew. `existing`: what
  // becomes of a file at PATH (base/output_file.h, which has the errors, too).
  static absl::StatusOr<std::unique_ptr<NgramFileWriter>> Open(const std::string& path,
                                                               const NgramShape& shape,
                                                               base::Existing existing);
  ~NgramFileWriter();
  NgramFileWriter(const NgramFileWriter&) = delete;
  NgramFileWriter& operator=(const NgramFileWriter&) = delete;

  const NgramShape& shape() const { return shape_; }
  uint32_t done() const { return done_; }  // tokens, from 0 on

  // As many as the shape says.
  absl::Status WriteUnigrams(absl::Span<const Successor> unigrams);
  // Of the tokens from done() on: [tokens][successors], [tokens][successors][continuation].
  absl::Status WriteTokens(absl::Span<const Successor> bigrams,
                           absl::Span<const uint32_t> continuations);
  // All tokens are written, and the unigrams.
  absl::Status Finish();

 private:
  NgramFileWriter() = default;
  absl::Status Write(uint64_t offset, const void* data, size_t bytes);
  absl::Status Fail(absl::string_view what) const;

  std::string path_, partial_;
  NgramShape shape_;
  base::Existing existing_ = base::Existing::kKeep;
  int descriptor_ = -1;
  uint32_t done_ = 0;
  bool unigrams_written_ = false;
};

}  // namespace tandem::draft_service
