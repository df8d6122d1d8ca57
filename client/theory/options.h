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
#include "client/common/orchestrator_flags.h"
#include "common/flags/flag_set.h"
#include "common/theory/round_time.h"
#include "tandem/v1/describe.pb.h"

namespace tandem::client {

inline constexpr uint32_t kMaxGamma = 1000;

struct TheoryOptions {
  std::vector<double> alphas;    // 0 to 1 each; empty: a grid, or what the orchestrator measured
  std::vector<uint32_t> gammas;  // 0 to kMaxGamma each; empty: a grid
  uint64_t max_gamma = 16;       // the search for the best gamma ends here

  // Of the paper's formulas. Not together with times. Absent: 0.
  std::optional<double> c;
  std::optional<double> c_hat;
  std::optional<double> draft_reads;

  // Times, in microseconds. What is absent is read from the orchestrator, if one is named.
  std::vector<theory::PassTime::Point> cost_curve;  // of a target pass; empty: none
  std::optional<double> target_us;                  // of a target pass of any rows, in its place
  std::optional<double> draft_us;                   // per draft token; absent: 0
  std::optional<double> round_trip_us;              // to the draft and back; absent: 0
  std::optional<double> target_round_trip_us;       // to the target and back; absent: 0
  std::optional<double> draft_row;  // what a further row adds to a draft pass, as a part of it
  OrchestratorFlags orchestrator;   // address empty: nobody is asked

  bool json = false;

  void AddTo(flags::FlagSet& flags);
  absl::Status Validate() const;  // INVALID_ARGUMENT names the flag and its range

  // Whether rounds are computed from times; else by the paper's formulas.
  bool timed() const {
    return target_us.has_value() || !cost_curve.empty() || !orchestrator.address.empty();
  }
  // Fills in what no flag gave. FAILED_PRECONDITION names what the orchestrator has not measured
  // yet, and the flag that may give it.
  absl::Status TakeFrom(const v1::DescribeReply& measured);
};

// Parses "0.6,0.8": 1 to 32 numbers from 0 to 1. INVALID_ARGUMENT names the flag.
absl::StatusOr<std::vector<double>> ParseAlphas(absl::string_view text);

// Parses "1:2100,5:2700": rows and the time of a pass in microseconds. Rows rise and times do not
// fall. INVALID_ARGUMENT names the flag.
absl::StatusOr<std::vector<theory::PassTime::Point>> ParseCostCurve(absl::string_view text);

}  // namespace tandem::client
