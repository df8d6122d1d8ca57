// UTF-8 that may be wrong or still incomplete. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem::tokenizer {

// What stands for bytes that are part of no character.
enum class Replacement {
  kEachPart,  // one U+FFFD for each longest beginning of a character (Unicode 15.0, 3.9
              // "Substitution of Maximal Subparts")
  kEachByte,  // one for each byte, as SentencePiece does
};

// Appends the text of `bytes` to `text`, up to the beginning of a character that `bytes` ends
// within. Returns how many bytes of such a beginning are left over at the end: 0 to 3.
size_t AppendText(std::string_view bytes, Replacement replacement, std::string& text);

// What stands for `bytes` that AppendText left over, when nothing follows them.
std::string ReplacementText(std::string_view bytes, Replacement replacement);

}  // namespace tandem::tokenizer
