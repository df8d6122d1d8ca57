// The options of `tandem theory`.
//
// Thread safety: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/flags/flag_set.h"
#include "common/theory/round_time.h"

namespace tandem::client {

inline constexpr uint32_t kMaxGamma = 1000;

struct TheoryOptions {
  std::vector<double> alphas;    // 0 to 1 each; empty: a grid
  std::vector<uint32_t> gammas;  // 0 to kMaxGamma each; empty: a grid
  std::optional<double> c;       // absent: 0; so for the next two
  std::optional<double> c_hat;
  std::optional<double> draft_reads;
  uint64_t max_gamma = 16;  // the search for the best gamma ends here

  std::vector<theory::PassTime::Point> cost_curve;  // empty: none
  std::optional<double> draft_us;                   // needs a cost curve, as the next; absent: 0
  std::optional<double> round_trip_us;
  bool json = false;

  void AddTo(flags::FlagSet& flags);
  absl::Status Validate() const;  // INVALID_ARGUMENT names the flag and its range
};

// Parses "0.6,0.8": 1 to 32 numbers from 0 to 1. INVALID_ARGUMENT names the flag.
absl::StatusOr<std::vector<double>> ParseAlphas(absl::string_view text);

// Parses "1:2100,5:2700": rows and the time of a pass in microseconds. Rows rise and times do not
// fall. INVALID_ARGUMENT names the flag.
absl::StatusOr<std::vector<theory::PassTime::Point>> ParseCostCurve(absl::string_view text);

}  // namespace tandem::client
