// Text to token ids and back, from a Hugging Face tokenizer.json (the tokenizers crate does the work).
//
// Thread safety: const methods from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tandem::tokenizer {

class Tokenizer {
 public:
  // Reads `directory`/tokenizer.json. NOT_FOUND or INVALID_ARGUMENT name the file and what is wrong.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::string& directory);
  // From the text of a tokenizer.json.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromJson(std::string_view json);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // INVALID_ARGUMENT when text is not UTF-8. add_special_tokens: as the tokenizer's post-processor does
  // (a beginning-of-text token, say).
  absl::StatusOr<std::vector<uint32_t>> Encode(std::string_view text,
                                               bool add_special_tokens = true) const;

  // Special tokens have no text. An id that is not in the vocabulary is INVALID_ARGUMENT.
  absl::StatusOr<std::string> Decode(absl::Span<const uint32_t> ids) const;

  uint32_t vocabulary_size() const;  // largest id + 1
  bool IsSpecial(uint32_t id) const;
  bool IsToken(uint32_t id) const;   // false for holes and for padding of a model's embedding

  // Content ids (content_id.h): equal when every id means the same bytes.
  const std::string& content_id() const;
  uint32_t TokenHash(uint32_t id) const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Turns a stream of ids into a stream of text. What Feed returns, joined, equals Decode of all ids, and
// no piece ends inside a UTF-8 character. Bytes that never become a character come out as U+FFFD, at the
// latest from Finish. Not thread-safe.
class IncrementalDetokenizer {
 public:
  // `prompt`: ids before the output; they settle whether the first piece begins with a space. The
  // tokenizer must outlive this object.
  IncrementalDetokenizer(const Tokenizer& tokenizer, absl::Span<const uint32_t> prompt);

  absl::StatusOr<std::string> Feed(uint32_t id);
  std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  std::vector<uint32_t> ids_;
  size_t prefix_ = 0;  // ids before this one are left out of the next decode
  size_t read_ = 0;    // ids before this one have been returned as text
};

}  // namespace tandem::tokenizer
