#include "common/flags/values.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tandem::flags {
namespace {

constexpr size_t kMaxShown = 60;  // of a wrong value, in bytes

}  // namespace

bool Range::Contains(double value) const {
  return (exclusive_min ? value > min : value >= min) && value <= max;
}

std::string Range::ToString() const {
  return absl::StrCat(exclusive_min ? "above " : "", min, exclusive_min ? ", to " : " to ", max);
}

// SimpleAtoi alone would take " 7 " and "+7" as well.
std::optional<uint64_t> ParseWhole(absl::string_view text, uint64_t min, uint64_t max) {
  uint64_t value = 0;
  const bool digits =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (text.empty() || !digits || !absl::SimpleAtoi(text, &value)) return std::nullopt;
  if (value < min || value > max) return std::nullopt;
  return value;
}

absl::Status BadFlag(absl::string_view name, absl::string_view value, absl::string_view problem) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", name, "=", absl::Utf8SafeCHexEscape(value.substr(0, kMaxShown)),
                   value.size() > kMaxShown ? "..." : "", ": ", problem));
}

}  // namespace tandem::flags
