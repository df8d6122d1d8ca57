#include "common/base/excerpt.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace tandem::base {
namespace {

constexpr size_t kMaxMessageBytes = 8192;

// Of the control character at `text[i]`, C1 included; 0: it is another one.
size_t ControlBytes(absl::string_view text, size_t i) {
  const auto byte = [&](size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
  };
  if (absl::ascii_iscntrl(byte(i))) return 1;
  return byte(i) == 0xc2 && byte(i + 1) >= 0x80 && byte(i + 1) < 0xa0 ? 2 : 0;
}

std::string Printable(absl::string_view text, size_t max_bytes, bool lines) {
  const size_t whole = text.size();
  if (whole > max_bytes) {
    size_t end = max_bytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    text = text.substr(0, end);
  }
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t control = ControlBytes(text, i);
    if (control == 0 || (lines && text[i] == '\n')) {
      result += text[i];
    } else if (text[i] == '\n') {
      result += "\\n";
    } else {
      i += control - 1;
      absl::StrAppend(&result, "\\x",
                      absl::Hex(static_cast<unsigned char>(text[i]), absl::kZeroPad2));
    }
  }
  if (whole > max_bytes) absl::StrAppend(&result, "… (", whole, " bytes)");
  return result;
}

}  // namespace

std::string Excerpt(absl::string_view value, size_t max_bytes) {
  return Printable(value, max_bytes, /*lines=*/false);
}

std::string MessageForTerminal(absl::string_view message) {
  return Printable(message, kMaxMessageBytes, /*lines=*/true);
}

}  // namespace tandem::base
