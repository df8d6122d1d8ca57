#include "orchestrator/request/without_content.h"

#include "absl/strings/ascii.h"

namespace tandem::orchestrator {
namespace {

// Characters within an address, an identifier or a fraction.
bool JoinsWords(char c) {
  return absl::ascii_isalnum(c) || c == '.' || c == ':' || c == '_' || c == '-';
}

// The end of the run of digits that begins at `begin`, if it is a number by itself; else `begin`.
size_t EndOfNumber(absl::string_view text, size_t begin) {
  if (!absl::ascii_isdigit(text[begin]) || (begin > 0 && JoinsWords(text[begin - 1]))) return begin;
  size_t end = begin;
  while (end < text.size() && absl::ascii_isdigit(text[end])) ++end;
  if (end == text.size()) return end;
  const bool goes_on = end + 1 < text.size() && absl::ascii_isalnum(text[end + 1]);
  const bool is_word = absl::ascii_isalnum(text[end]) || (JoinsWords(text[end]) && goes_on);
  return is_word ? begin : end;
}

}  // namespace

std::string WithoutContent(absl::string_view message) {
  std::string text;
  for (size_t i = 0; i < message.size();) {
    if (message[i] == '"') {
      const size_t close = message.rfind('"');  // the last one: the text between may have some, too
      text += "\"…\"";
      i = close == i ? message.size() : close + 1;
    } else if (const size_t end = EndOfNumber(message, i); end != i) {
      text += '#';
      i = end;
    } else {
      text += message[i++];
    }
  }
  return text;
}

}  // namespace tandem::orchestrator
