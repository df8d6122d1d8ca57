// Turns a stream of token ids into a stream of text.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tokenizer/tokenizer.h"

namespace tandem::tokenizer {

// What Feed and Finish return, joined, equals Tokenizer::Decode of all ids, and no piece ends
// inside a UTF-8 character. Bytes that never become a character come out as U+FFFD, at the latest
// from Finish. At most 3 bytes are ever held back. A call costs as much as its own token is long.
//
// Not thread-safe.
class IncrementalDetokenizer {
 public:
  // `prompt`: ids before the output; they settle whether the first piece begins with a space. Where
  // the prompt ends inside a character, that character comes with the output that completes it. Ids
  // that are not in the vocabulary count for nothing. The tokenizer must outlive this object.
  IncrementalDetokenizer(const Tokenizer& tokenizer, absl::Span<const uint32_t> prompt);

  // The text that is complete now: often empty. INVALID_ARGUMENT for an id that is not in the
  // vocabulary, which changes nothing.
  absl::StatusOr<std::string> Feed(uint32_t id);
  // What is still held, at the end of the text.
  std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  std::string held_;      // the beginning of a character
  bool at_start_ = true;  // no token with a text has come
};

}  // namespace tandem::tokenizer
