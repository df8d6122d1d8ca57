#include "common/tokenizer/utf8.h"

#include <cstdint>

namespace tandem::tokenizer {
namespace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// Well-formed UTF-8 (Unicode 15.0, table 3-7): the length by the first byte, and the range of the
// second, which rules out overlong forms, surrogates and what lies beyond U+10FFFF.
struct Lead {
  size_t length;  // 0 = begins no character
  uint8_t second_low;
  uint8_t second_high;
};

Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// How many of the first bytes of `bytes` (not empty) belong to one character, as far as they go;
// at least 1. `missing`: how many that character lacks still; kNever if it cannot become one.
constexpr size_t kNever = ~size_t{0};

size_t MatchCharacter(std::string_view bytes, size_t& missing) {
  const Lead lead = LeadOf(static_cast<uint8_t>(bytes[0]));
  missing = kNever;
  if (lead.length == 0) return 1;
  size_t matched = 1;
  for (; matched < lead.length && matched < bytes.size(); ++matched) {
    const auto byte = static_cast<uint8_t>(bytes[matched]);
    const uint8_t low = matched == 1 ? lead.second_low : 0x80;
    const uint8_t high = matched == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return matched;
  }
  missing = lead.length - matched;
  return matched;
}

}  // namespace

size_t AppendText(std::string_view bytes, Replacement replacement, std::string& text) {
  while (!bytes.empty()) {
    size_t missing = 0;
    const size_t matched = MatchCharacter(bytes, missing);
    if (missing == 0) {
      text.append(bytes.substr(0, matched));
    } else if (missing == kNever) {
      text.append(ReplacementText(bytes.substr(0, matched), replacement));
    } else {
      return bytes.size();
    }
    bytes.remove_prefix(matched);
  }
  return 0;
}

std::string ReplacementText(std::string_view bytes, Replacement replacement) {
  std::string text;
  const size_t count = replacement == Replacement::kEachByte ? bytes.size() : !bytes.empty();
  for (size_t i = 0; i < count; ++i) text.append(kReplacementCharacter);
  return text;
}

}  // namespace tandem::tokenizer
