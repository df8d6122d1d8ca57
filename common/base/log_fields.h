// Log lines for people and machines: an event's name, then its fields.
//
//   TANDEM_LOG(kInfo) << LogFields("request").Add("id", id).AddMs("total_ms", t);
//   2026-11-21T09:55:01.123Z INFO orchestrator/log/request_log.cc:42 request id=a-1 total_ms=12.5
//
// As text (logfmt) the pairs are key=value. A value stands bare unless it is empty or has a space,
// '"', '=', '\' or a control character: then it is quoted, with JSON's escapes. Bytes from 0x80 on
// stay as they are. So a line splits at spaces outside of quotes, and each part splits at its first
// '='. As JSON each field is a member; log.h has the whole line.
//
// Plain value; not for hot paths.
#pragma once

#include <concepts>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tandem::base {

class LogFields {
 public:
  // `event` and keys: lower-case letters, digits and '_', at least one. Keys are none of "time",
  // "level", "source" and "event", which lines of JSON have besides. Anything else is a CHECK.
  explicit LogFields(absl::string_view event);

  LogFields& Add(absl::string_view key, absl::string_view value);
  // So that text does not become a bool.
  LogFields& Add(absl::string_view key, const char* value) {
    return Add(key, absl::string_view(value));
  }
  LogFields& Add(absl::string_view key, std::same_as<bool> auto value) {
    return AddBare(key, value ? "true" : "false");
  }
  LogFields& Add(absl::string_view key,
                 std::integral auto value) requires(!std::same_as<decltype(value), bool>) {
    return AddBare(key, absl::StrCat(value));
  }
  // Six significant digits; "nan", "inf", "-inf", which are strings in JSON.
  LogFields& Add(absl::string_view key, double value);
  // With its unit: 1.5s, 200ms, 0, inf. A string in JSON.
  LogFields& Add(absl::string_view key, absl::Duration value);
  // Milliseconds, to the microsecond, for machines to add up and compare: 0.25, 12, 61000.5. The
  // unit is not written; the key has it.
  LogFields& AddMs(absl::string_view key, absl::Duration value);

  // The event and its fields as text.
  std::string text() const;
  // The same as members of a JSON object, without its braces: "event": "request", "id": "a-1".
  std::string json() const;

 private:
  struct Field {
    std::string key;
    std::string value;
    bool is_string;  // in JSON
  };

  LogFields& AddBare(absl::string_view key, std::string value, bool is_string = false);

  std::string event_;
  std::vector<Field> fields_;
};

std::ostream& operator<<(std::ostream& out, const LogFields& fields);

}  // namespace tandem::base
