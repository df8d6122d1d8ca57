#include "client/common/prompt.h"

#include <cstddef>

#include "absl/strings/str_cat.h"

namespace tandem::client {
namespace {

// The length of the UTF-8 character that `text` begins with; 0 if it begins with none.
size_t CharacterLength(absl::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and what is past U+10FFFF.
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) >= 0xa0)) return 0;
  if ((first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) >= 0x90)) return 0;
  return length;
}

// The position of the first byte that is part of no character; npos if there is none.
size_t FirstBadByte(absl::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = CharacterLength(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return absl::string_view::npos;
}

}  // namespace

bool IsUtf8(absl::string_view text) { return FirstBadByte(text) == absl::string_view::npos; }

absl::Status CheckPrompt(absl::string_view prompt, absl::string_view source) {
  if (prompt.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": the prompt is empty; it must have at least one character"));
  }
  if (size_t at = FirstBadByte(prompt); at != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": the prompt is not UTF-8 (byte ", at, " is part of no character)"));
  }
  return absl::OkStatus();
}

}  // namespace tandem::client
