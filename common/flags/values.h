// Values of flags as text, and what is said of a wrong one.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tandem::flags {

// A set of real numbers: from `min`, or above it, to `max`.
struct Range {
  double min = 0;
  double max = 0;
  bool exclusive_min = false;  // `min` itself is not in it

  bool Contains(double value) const;  // not for NaN
  std::string ToString() const;       // "0 to 1", "above 0, to 1"
};

// Plain decimal digits, `min` to `max`; nullopt for anything else.
std::optional<uint64_t> ParseWhole(absl::string_view text, uint64_t min, uint64_t max);

// "--name=value: what is wrong"; INVALID_ARGUMENT. A long value is cut.
absl::Status BadFlag(absl::string_view name, absl::string_view value, absl::string_view problem);

}  // namespace tandem::flags
