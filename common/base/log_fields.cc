#include "common/base/log_fields.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "common/base/check.h"
#include "common/base/json.h"

namespace tandem::base {
namespace {

bool IsName(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
  });
}

bool IsReserved(absl::string_view key) {
  return key == "time" || key == "level" || key == "source" || key == "event";
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

LogFields::LogFields(absl::string_view event) : event_(event) { TANDEM_CHECK(IsName(event)); }

LogFields& LogFields::Add(absl::string_view key, absl::string_view value) {
  return AddBare(key, std::string(value), /*is_string=*/true);
}

LogFields& LogFields::Add(absl::string_view key, double value) {
  return AddBare(key, absl::StrCat(value), /*is_string=*/!std::isfinite(value));
}

LogFields& LogFields::Add(absl::string_view key, absl::Duration value) {
  return AddBare(key, absl::FormatDuration(value), /*is_string=*/true);
}

LogFields& LogFields::AddMs(absl::string_view key, absl::Duration value) {
  if (value == absl::InfiniteDuration()) return Add(key, "inf");
  if (value == -absl::InfiniteDuration()) return Add(key, "-inf");
  const int64_t us = absl::ToInt64Microseconds(value);
  const uint64_t size = us < 0 ? -static_cast<uint64_t>(us) : static_cast<uint64_t>(us);
  std::string text = absl::StrCat(us < 0 ? "-" : "", size / 1000);
  if (size % 1000 != 0) {
    absl::StrAppend(&text, ".", absl::Dec(size % 1000, absl::kZeroPad3));
    text.erase(text.find_last_not_of('0') + 1);
  }
  return AddBare(key, std::move(text));
}

LogFields& LogFields::AddBare(absl::string_view key, std::string value, bool is_string) {
  TANDEM_CHECK(IsName(key) && !IsReserved(key));
  fields_.push_back({std::string(key), std::move(value), is_string});
  return *this;
}

std::string LogFields::text() const {
  std::string text = event_;
  for (const Field& field : fields_) {
    absl::StrAppend(&text, " ", field.key, "=");
    if (field.is_string && !StandsBare(field.value)) {
      AppendQuoted(field.value, text);
    } else {
      text += field.value;
    }
  }
  return text;
}

std::string LogFields::json() const {
  std::string members = absl::StrCat("\"event\": ", JsonText(event_).text());
  for (const Field& field : fields_) {
    absl::StrAppend(&members, ", \"", field.key,
                    "\": ", field.is_string ? JsonText(field.value).text() : field.value);
  }
  return members;
}

std::ostream& operator<<(std::ostream& out, const LogFields& fields) {
  return out << fields.text();
}

}  // namespace tandem::base
