#include "client/common/token_text.h"

#include <cstddef>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/common/prompt.h"

namespace tandem::client {
namespace {

constexpr size_t kMaxShown = 40;
constexpr absl::string_view kMore = "…";

}  // namespace

std::string QuotedToken(absl::string_view bytes) {
  std::string text = IsUtf8(bytes) ? absl::Utf8SafeCHexEscape(bytes) : absl::CHexEscape(bytes);
  text = absl::StrReplaceAll(text, {{"\\'", "'"}});
  if (text.size() > kMaxShown) {
    size_t end = kMaxShown - kMore.size();
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text = absl::StrCat(text.substr(0, end), kMore);
  }
  return absl::StrCat("\"", text, "\"");
}

base::JsonText BytesJson(absl::string_view bytes) {
  std::vector<base::JsonText> json;
  for (const char byte : bytes)
    json.emplace_back(static_cast<unsigned int>(static_cast<unsigned char>(byte)));
  return json;
}

}  // namespace tandem::client
