#include "common/base/log_fields.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "common/base/check.h"

namespace tandem::base {
namespace {

bool IsName(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
  });
}

bool StandsBare(absl::string_view value) {
  return !value.empty() && std::none_of(value.begin(), value.end(), [](char c) {
    return c == ' ' || c == '"' || c == '=' || c == '\\' || absl::ascii_iscntrl(c);
  });
}

void AppendQuoted(absl::string_view value, std::string& text) {
  text += '"';
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (c == '\n') {
      text += "\\n";
    } else if (c == '\r') {
      text += "\\r";
    } else if (c == '\t') {
      text += "\\t";
    } else if (absl::ascii_iscntrl(c)) {
      absl::StrAppend(&text, "\\u", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad4));
    } else {
      text += c;
    }
  }
  text += '"';
}

}  // namespace

LogFields::LogFields(absl::string_view event) : text_(event) { TANDEM_CHECK(IsName(event)); }

LogFields& LogFields::Add(absl::string_view key, absl::string_view value) {
  if (StandsBare(value)) return AddBare(key, value);
  AddBare(key, "");
  AppendQuoted(value, text_);
  return *this;
}

LogFields& LogFields::Add(absl::string_view key, double value) {
  return AddBare(key, absl::StrCat(value));
}

LogFields& LogFields::Add(absl::string_view key, absl::Duration value) {
  return AddBare(key, absl::FormatDuration(value));
}

LogFields& LogFields::AddMs(absl::string_view key, absl::Duration value) {
  if (value == absl::InfiniteDuration()) return AddBare(key, "inf");
  if (value == -absl::InfiniteDuration()) return AddBare(key, "-inf");
  const int64_t us = absl::ToInt64Microseconds(value);
  const uint64_t size = us < 0 ? -static_cast<uint64_t>(us) : static_cast<uint64_t>(us);
  std::string text = absl::StrCat(us < 0 ? "-" : "", size / 1000);
  if (size % 1000 != 0) {
    absl::StrAppend(&text, ".", absl::Dec(size % 1000, absl::kZeroPad3));
    text.erase(text.find_last_not_of('0') + 1);
  }
  return AddBare(key, text);
}

LogFields& LogFields::AddBare(absl::string_view key, absl::string_view value) {
  TANDEM_CHECK(IsName(key));
  absl::StrAppend(&text_, " ", key, "=", value);
  return *this;
}

std::ostream& operator<<(std::ostream& out, const LogFields& fields) {
  return out << fields.text();
}

}  // namespace tandem::base
