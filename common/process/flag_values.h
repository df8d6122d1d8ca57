// Types of flags whose errors say what would be right. Abseil's own say "Illegal value '-1'".
//
//   using Rows = process::NumberFlag<0, 65536>;
//   ABSL_FLAG(Rows, pass_rows, {0}, "…");
//   … absl::GetFlag(FLAGS_pass_rows).value
//
// Thread safety: plain values.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tandem::process {

// A whole number in a range, both ends in it.
template <int64_t min, int64_t max>
struct NumberFlag {
  int64_t value = min;

  friend bool AbslParseFlag(absl::string_view text, NumberFlag* flag, std::string* error) {
    int64_t number = 0;
    if (absl::SimpleAtoi(text, &number) && number >= min && number <= max) {
      flag->value = number;
      return true;
    }
    *error = absl::StrCat("it must be a whole number from ", min, " to ", max);
    return false;
  }
  friend std::string AbslUnparseFlag(const NumberFlag& flag) { return absl::StrCat(flag.value); }
};

// A time with its unit. Ranges are the options' own.
struct TimeFlag {
  absl::Duration value;

  friend bool AbslParseFlag(absl::string_view text, TimeFlag* flag, std::string* error) {
    if (absl::ParseDuration(absl::StripAsciiWhitespace(text), &flag->value)) return true;
    *error = "it must be a time with its unit, like 200ms, 1.5s or 10m";
    return false;
  }
  friend std::string AbslUnparseFlag(const TimeFlag& flag) {
    return absl::FormatDuration(flag.value);
  }
};

}  // namespace tandem::process
