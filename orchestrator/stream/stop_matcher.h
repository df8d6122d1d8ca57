// Finds stop strings in a text that comes in pieces. It holds back only the text that could still
// become a stop string.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tandem::orchestrator {

// The first match is the one that ends first; of those that end at the same byte, the longest. So
// the result does not depend on how the text was cut into pieces.
//
// Each string is followed by the automaton of Knuth, Morris and Pratt (1977): O(1) for each byte
// and string, amortised. Pieces and strings are whole UTF-8 characters. A match and the possible
// beginning of one start with the first byte of a character, so the released text is whole
// characters, too.
//
// Not thread-safe.
class StopMatcher {
 public:
  // Each string has at least one byte. There may be none.
  explicit StopMatcher(std::vector<std::string> strings);

  struct Result {
    std::string text;               // text that may be sent
    std::optional<size_t> matched;  // index of the string that matched; `text` ends before it
  };

  // Takes the next piece. Do not call it after a match. Unless `may_end`, a string that `piece`
  // completes is not a match; but a string that begins in it and is completed later is.
  Result Feed(absl::string_view piece, bool may_end = true);

  // The text is over. Returns the text that was held back.
  std::string Finish();

  const std::string& string(size_t index) const { return patterns_[index].text; }

 private:
  struct Pattern {
    std::string text;
    std::vector<uint32_t> failure;  // [i]: longest proper border of the first i + 1 bytes
    uint32_t state = 0;             // bytes of `text` that the text read so far ends with
    void Follow(char byte);
  };

  std::vector<Pattern> patterns_;
  std::string held_;
};

}  // namespace tandem::orchestrator
