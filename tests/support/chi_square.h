// Statistics that tests judge random output with.
//
// False alarms: the tests that use this, all of them together, fail by chance with a probability of
// at most kSuiteFalseAlarm over the choice of seeds: each of at most kMaxTests tests gets an equal
// share (Bonferroni). Seeds are fixed, so a test that passes once passes always.
#pragma once

#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace tandem::testing {

inline constexpr double kSuiteFalseAlarm = 1e-6;
inline constexpr int kMaxTests = 1000;
// What a negative control (an implementation known to be wrong) has to reach.
inline constexpr double kControlLevel = 1e-12;

struct ChiSquare {
  double statistic = 0;
  int degrees = 0;         // of freedom: cells after pooling, less one
  double log_p = 0;        // natural logarithm of the p-value; exact far below what a double holds
  int64_t impossible = 0;  // observations in cells of probability 0; log_p is then -infinity

  bool Passes() const;           // log_p above log(kSuiteFalseAlarm / kMaxTests)
  bool ControlIsCaught() const;  // log_p below log(kControlLevel)
  std::string ToString() const;  // all of the above, for a failure message
};

// Pearson's goodness of fit of `counts` to `probabilities` (which sum to 1 within 1e-9; as many as
// counts). Cells that expect fewer than `min_expected` observations are pooled into one, and that
// one with the smallest other cell while it still expects fewer.
ChiSquare GoodnessOfFit(absl::Span<const double> probabilities, absl::Span<const int64_t> counts,
                        double min_expected = 10);

// Adds up independent tests: the statistics and the degrees of freedom of disjoint observations.
ChiSquare Combine(absl::Span<const ChiSquare> tests);

// log of the upper tail of the chi-square distribution, P(X > statistic). Relative error of log_p
// below 1e-10, from 0 down to -1e5 and further.
double LogChiSquareTail(double statistic, int degrees);

// Half the sum of |p - q|. Same length.
double TotalVariation(absl::Span<const double> p, absl::Span<const double> q);

}  // namespace tandem::testing
